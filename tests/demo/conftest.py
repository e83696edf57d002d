"""The browser of the page's tests."""

from tests.web.conftest import page

__all__ = ["page"]
