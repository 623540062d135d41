"""`aggserver dev user`: a client certificate of a server without a cluster, in a kubeconfig of its own.

It needs only the data folder, where the server's CA is. It works while the server runs, and also before the server's first start:
then it makes the CA that the server will find. The certificate is valid for a year, and can't be revoked.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from aggserver import disk
from aggserver.app.credentials import keeper_in
from aggserver.app.errors import StartError
from aggserver.app.storage import data_folder
from aggserver.certificates.issuing import SubjectNames, issue_client
from aggserver.options import Options
from aggserver.standalone import kubeconfig

__all__ = ["make_user"]

# ub-common-name of X.520.
_MAX_NAME = 64
_DEFAULT_URL = "https://127.0.0.1:6443"


async def make_user(options: Options) -> str:
    """Writes the kubeconfig. Returns a line for the person who asked. Raises FileError, KubeconfigError and StartError."""
    if len(options.user) > _MAX_NAME:
        raise StartError(f"NAME: at most {_MAX_NAME} characters, the limit of a certificate's common name")
    path = options.kubeconfig_to_write or Path()
    kubeconfig.read(path)  # raises before anything is created
    folder = data_folder(options.data)
    url, bundle = kubeconfig.cluster_of(kubeconfig.read(folder / "kubeconfig"))
    try:
        with disk.file_errors():
            ca, own_bundle = await keeper_in(folder, SubjectNames.of("localhost"), time.time).authority()
    except ValueError as error:
        raise StartError(f"{folder / 'certificates'}: {error}") from None
    pair = issue_client(ca, options.user, options.user_groups, time.time())
    server = options.server_url or url or _DEFAULT_URL
    kubeconfig.write_into(path, kubeconfig.config(server, bundle or own_bundle, pair.cert_pem, pair.key_pem, options.user))
    groups = f" in {', '.join(options.user_groups)}" if options.user_groups else ""
    next_step = f"kubectl --kubeconfig {shlex.quote(str(path))} auth whoami"
    return f"{path} is a kubeconfig of user {options.user}{groups} for {server}. Next: {next_step}"
