"""Access control of the dashboard: tokens, cookies, names, origins, methods and headers."""

import httpx
import pytest
from starlette.responses import PlainTextResponse

from grainlike.dashboard import AccessControl
from grainlike.dashboard._address import hosts_of, is_loopback, read_address, shown_host

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:8787"


@pytest.fixture
def access():
    return AccessControl(hosts_of("127.0.0.1"), 8787)


@pytest.fixture
def app(access):
    return access.guard(PlainTextResponse("inside"), {"/metrics"})


def browser(app, **headers):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL, headers=headers)


async def test_a_link_opens_one_browser_and_leads_to_an_address_without_the_token(app, access):
    token = access.new_token()
    async with browser(app) as one, browser(app) as other:
        answer = await one.get("/queue", params={"token": token, "name": "a&b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/queue?name=a%26b")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("grainlike-8787=")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert token not in cookie
        assert (await one.get("/queue")).text == "inside"
        again = await other.get("/", params={"token": token})
        assert again.status_code == 403
        assert "another browser has used it" in again.text
        assert "Enter" in again.text
        assert "set-cookie" not in again.headers
        assert (await other.get("/queue")).status_code == 403


@pytest.mark.parametrize("token", ["", "x", "a" * 5000, "\udcff", "é"])
async def test_a_wrong_token_gets_a_page_that_says_what_to_do(app, access, token):
    access.new_token()
    async with browser(app) as one:
        answer = await one.get("/", params={"token": token.encode("utf-8", "surrogateescape")})
        assert answer.status_code == 403
        assert "grainlike dashboard" in answer.text
        assert answer.headers["content-type"].startswith("text/html")


async def test_without_a_cookie_nothing_is_told_but_how_to_get_one(app):
    async with browser(app) as one:
        assert "opens it, once" in (await one.get("/")).text
        assert (await one.get("/api/head")).status_code == 403
        assert (await one.get("/api/live")).text == "A link with a token opens this dashboard."
        assert (await one.get("/static/base.css")).text == "inside"
        assert (await one.get("/metrics")).text == "inside"
        one.cookies.set("grainlike-8787", "guessed")
        assert (await one.get("/")).status_code == 403


async def test_from_a_page_of_another_site_a_link_leads_on_by_a_page_of_ours(app, access):
    """Its cookie is same-site: a browser would not send it where a redirection from another site leads."""
    async with browser(app, **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}) as one:
        answer = await one.get("/", params={"token": access.new_token()})
        assert answer.status_code == 200
        assert 'http-equiv="refresh" content="0; url=/"' in answer.text
        assert "set-cookie" in answer.headers


async def test_a_link_never_leads_to_another_host(app, access):
    async with browser(app) as one:
        answer = await one.get(f"{URL}//evil.example/", params={"token": access.new_token()})
        assert answer.headers["location"] == "/evil.example/"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND"])
async def test_whatever_is_not_get_is_refused(app, access, method):
    async with browser(app) as one:
        await one.get("/", params={"token": access.new_token()})
        answer = await one.request(method, "/")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "", "[::2]:8787", "0"])
async def test_a_name_that_was_made_to_lead_here_is_refused(app, access, host):
    async with browser(app) as one:
        await one.get("/", params={"token": access.new_token()})
        assert (await one.get("/", headers={"host": host})).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "[::1]:8787", "LOCALHOST"])
async def test_names_of_this_machine_are_good_at_any_port_as_tunnels_have_others(app, access, host):
    async with browser(app) as one:
        token = access.new_token()
        answer = await one.get("/", params={"token": token}, headers={"host": host})
        assert answer.status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8787"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
async def test_requests_that_pages_of_others_make_are_refused(app, access, headers):
    async with browser(app) as one:
        await one.get("/", params={"token": access.new_token()})
        assert (await one.get("/api/head", headers=headers)).status_code == 403
        assert (await one.get("/api/head", headers={"origin": URL})).status_code == 200


async def test_each_answer_has_headers_that_let_nothing_of_others_in(app, access):
    async with browser(app) as one:
        answers = [await one.get("/"), await one.get("/", params={"token": access.new_token()}), await one.get("/")]
        answers += [await one.post("/"), await one.get("/", headers={"host": "evil.example"})]
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'self'; ")
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"


async def test_links_and_browsers_of_long_ago_are_forgotten(app, access):
    first = access.new_token()
    for _ in range(40):
        access.new_token()
    assert access.redeem(first) is None
    cookies = [access.redeem(access.new_token()) for _ in range(300)]
    assert not access.knows(cookies[0])
    assert access.knows(cookies[-1])


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8787", ("127.0.0.1", 8787)), (":80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("h:1", ("h", 1))],
)
def test_addresses(text, address):
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:65536", "::1:80", "h:-1", "h:１"])
def test_what_is_no_address_says_what_is(text):
    with pytest.raises(ValueError, match="write HOST:PORT"):
        read_address(text)


def test_beyond_loopback_the_names_of_this_machine_are_good_and_no_others():
    assert is_loopback("127.0.0.2")
    assert not is_loopback("0.0.0.0")
    assert hosts_of("127.0.0.1") == {"127.0.0.1", "localhost", "::1"}
    assert "10.1.2.3" in hosts_of("10.1.2.3")
    assert "evil.example" not in hosts_of("0.0.0.0")
    assert shown_host("::1") == "[::1]"
    assert shown_host("0.0.0.0") in hosts_of("0.0.0.0") | {shown_host("0.0.0.0").lower()}
