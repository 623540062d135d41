"""The reference of flags is that of the code, and values that can't work are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggserver.options import OptionsError, parse
from aggserver.options.reference import page
from aggserver.options.table import FLAGS

PAGE = Path(__file__).parents[1] / "docs" / "flags.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "make flags writes it anew"


def test_every_flag_is_in_it():
    text = page()
    assert [flag.name for flag in FLAGS.values() if not flag.positional and f"`--{flag.name}" not in text] == []


REFUSED = {
    "service": (["--service-name=My_Service"], '--service-name: "My_Service": a DNS-1035 label must consist of lower case'),
    "namespace": (["--service-namespace=a.b"], '--service-namespace: "a.b": must not contain dots'),
    "service port": (["--service-port=0"], "--service-port: must be between 1 and 65535"),
    "shared port": (
        ["--secure-port=0", "--permit-port-sharing"],
        "--permit-port-sharing has no meaning with --secure-port 0: each server would take a port of its own",
    ),
    "port of nothing": (["--web-port=80"], "--web-port has no meaning without --app"),
    "star": (
        ["--authorization-always-allow-paths=/a/*/b"],
        '--authorization-always-allow-paths: only trailing * allowed in "a/*/b"',
    ),
    "header": (
        ["--requestheader-username-headers=X Remote User"],
        "--requestheader-username-headers: \"X Remote User\" can't be a header's name",
    ),
    "prefix": (
        ["--requestheader-extra-headers-prefix=x-remote-extra:"],
        "--requestheader-extra-headers-prefix: \"x-remote-extra:\" can't be a header's name",
    ),
}


@pytest.mark.parametrize(("argv", "text"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_work_is_refused(argv, text):
    with pytest.raises(OptionsError) as error:
        parse(["serve", *argv], {})
    assert str(error.value).startswith(text)


def test_what_works_is_not():
    argv = ["--service-name=my-service", "--service-namespace=1a", "--authorization-always-allow-paths=/a/*,b"]
    assert parse(["serve", *argv, "--requestheader-uid-headers="], {}).service_name == "my-service"
