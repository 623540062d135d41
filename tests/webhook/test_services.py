from __future__ import annotations

import pytest

from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ClientConfig, ServiceReference
from aggserver.webhook.services import MappedServices
from tests.fakes.webhook import FixedServices, calling

HOOK = ServiceReference("system", "hook", "/convert")


async def test_a_mapped_service_needs_no_cluster() -> None:
    addresses = {("system", "hook"): ("127.0.0.1", 9443)}
    assert await MappedServices(addresses).resolve(HOOK) == ("127.0.0.1", 9443)
    assert await MappedServices(addresses, FixedServices()).resolve(HOOK) == ("127.0.0.1", 9443)
    assert await MappedServices({}, FixedServices(hook=("10.0.0.7", 443))).resolve(HOOK) == ("10.0.0.7", 443)


async def test_the_error_names_the_flag() -> None:
    async with calling(MappedServices({})) as webhooks:
        with pytest.raises(WebhookError) as caught:
            await webhooks.call(ClientConfig(service=HOOK), b"{}", timeout=30)
    assert str(caught.value) == (
        'Post "https://hook.system.svc:443/convert?timeout=30s": there is no cluster with the service system/hook: '
        "--resolve-service system/hook=HOST:PORT says where it is"
    )
