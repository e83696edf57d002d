"""One browser for all tests of the page, and the servers that it visits."""

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.servers import RunningServer, start_server, with_own_data

if TYPE_CHECKING:
    from tests.web.page import Page

API_KEY = "correct horse"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Generator["Page", None, None]:
    """A page in a real browser that can also be heard by nobody."""
    pytest.importorskip("selenium", reason="selenium is not installed")
    from tests.web.page import start_browser

    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed")
    downloads = tmp_path_factory.mktemp("downloads")
    profile = tmp_path_factory.mktemp("profile")
    page = start_browser(Path(browser), Path(driver), profile, downloads)
    try:
        yield page
    finally:
        page.driver.quit()


@pytest.fixture(scope="session")
def locked_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer, None, None]:
    """A server that asks for `API_KEY`."""
    settings = Settings(
        model=ModelSettings(source="toy"), server=ServerSettings(api_keys=(API_KEY,))
    )
    with start_server(with_own_data(settings, tmp_path_factory)) as running:
        yield running
