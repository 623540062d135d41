"""PersistentVolumes and their claims: kept while they are used, and let go afterwards."""
