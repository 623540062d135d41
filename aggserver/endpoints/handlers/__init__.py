"""One module per verb: negotiate, decode, call the resource with its admission chain, encode. No rule of any resource is here."""
