"""The worker's page in a real browser: it shows what is published and what the worker does, and asks nobody else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from deploy.local.ports import free_port
from shoal.streams.cli import main
from shoal.streams.demo.clinic import Clinic, write_clinic
from tests.conftest import obtain
from tests.integration.test_seen import _CANARY, run_with_canaries
from tests.support.services.ask import ask
from tests.support.services.browser import find_browser
from tests.support.services.table import Make, await_that, insert


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    with obtain(request.config, "browser", find_browser()) as found, sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found.address, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page; what it complains about, and what it asks of anybody but its own worker, fails the test."""
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    complaints: list[str] = []
    hosts: set[str] = set()

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def note(request: Request) -> None:
        hosts.add(request.url.split("/")[2])

    opened.on("console", hear)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", note)
    yield opened
    assert complaints == []
    assert hosts <= {"", opened.url.split("/")[2]}, "a file has no host"
    opened.close()


def test_it_shows_the_worker_and_its_releases_and_nothing_about_a_person(make: Make, page: Page) -> None:
    table, port = make(), free_port()
    run_with_canaries(table, port)
    table.release()
    page.goto(f"http://127.0.0.1:{port}/")
    page.wait_for_selector("#grid svg")
    assert page.title() == f"Releases of {table.name}"
    assert "2 releases" in page.inner_text("header")
    assert page.inner_text("#worker-state") == "ready"
    assert page.locator("figure svg").count() >= 4
    assert "bad-json" in page.inner_text("#now")
    everything = page.content() + ask(port, "now")[1]
    assert _CANARY not in everything
    manifest = json.loads(table.releases()[-1].manifest)
    assert f"{manifest['rows']:,}" in page.inner_text("#main table >> nth=-1")
    page.select_option("#release", "1")
    page.wait_for_function("document.getElementById('grid').firstChild")


def test_it_measures_the_releases_as_a_report_does(make: Make, page: Page, tmp_path: Path) -> None:
    table, port = make(), free_port()
    table.start_planner(WEB_PORT=str(port))
    table.send([insert(number) for number in range(60)])
    table.release()
    table.send([insert(number) for number in range(60, 80)])
    table.release()
    await_that(lambda: "What queries leave open" in ask(port, "")[1], 30, pause_s=1)
    assert table.run("releases", "--out", str(tmp_path / "out")).returncode == 0
    report = ("report", str(table.policy_path), str(tmp_path / "out"), "--out", str(tmp_path / "report"))
    assert table.run(*report).returncode == 0
    page.goto((tmp_path / "report" / "index.html").as_uri())
    places = ("[aria-labelledby=figures]", "[aria-labelledby=attack]")
    figures, attack = (page.inner_text(place) for place in places)
    assert "query range" in figures
    assert "From this release alone" in attack
    page.goto(f"http://127.0.0.1:{port}/")
    assert tuple(page.inner_text(place) for place in places) == (figures, attack)


def test_the_map_is_moved_over_and_asked_with_the_keyboard(tmp_path: Path, page: Page) -> None:
    write_report(tmp_path)
    page.goto((tmp_path / "report" / "index.html").as_uri())
    page.select_option("#shade", label="share of hypertension")
    page.focus("#grid svg")
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#here")
    page.keyboard.press("ArrowRight")
    assert "hypertension: about" in first
    assert page.inner_text("#here") != first
    page.keyboard.press("Enter")
    assert "Group g" in page.inner_text("#groups")
    assert "guesses right with at most 25.0 %" in page.inner_text("#groups")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_small_screen_and_a_dark_one(tmp_path: Path, page: Page, scheme: str) -> None:
    write_report(tmp_path)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto((tmp_path / "report" / "index.html").as_uri())
    page.wait_for_selector("#grid svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map((text) => "
        "parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a)"
    )
    assert min(sizes) > 9, "pixels that a letter is high"
    paper, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert (brightness(paper) > brightness(ink)) == (scheme == "light")
    assert abs(brightness(paper) - brightness(ink)) > 150


def test_a_release_that_is_not_there_and_an_address_that_is_none_are_refused(make: Make) -> None:
    table, port = make(), free_port()
    table.start_planner(WEB_PORT=str(port))
    await_that(lambda: ask(port, "ready")[0] == 200, 20)
    assert "Nothing is published yet" in ask(port, "")[1]
    assert ask(port, "page.css")[0] == ask(port, "page.js")[0] == 200
    for address in ("releases/1.json", "releases/x.json", "releases/99999999999.json", "releases/%0a.json"):
        assert ask(port, address)[0] == 404


def test_it_can_be_turned_off(make: Make) -> None:
    table, port = make(), free_port()
    table.start_planner(WEB_PORT=str(port), PAGE="false")
    await_that(lambda: ask(port, "ready")[0] == 200, 20)
    assert "Releases of" not in ask(port, "")[1]
    assert ask(port, "releases/1.json")[0] == 404


def write_report(path: Path) -> None:
    write_clinic(path / "clinic", Clinic(people=400, nights=3))
    policy, events = path / "clinic" / "policy.yaml", path / "clinic" / "events.jsonl"
    assert main(["replay", str(policy), str(events), "--out", str(path / "out"), "--seed", "s"]) == 0
    assert main(["report", str(policy), str(path / "out"), "--out", str(path / "report")]) == 0


def brightness(colour: str) -> float:
    """Of a colour as the browser writes it, rgb(1, 2, 3)."""
    red, green, blue = (float(part) for part in colour[4:-1].split(","))
    return 0.299 * red + 0.587 * green + 0.114 * blue
