"""HTML from Jinja2 templates that escape whatever they are given.

A missed escape is impossible rather than unlikely: escaping cannot be turned off for a value, since there is no filter
`safe`, and an undefined name in a template is an error. Only `Markup` is not escaped again, and tests/test_html.py
names the few places that make it.
"""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


class Templates:
    """The templates of a package, in its folder ``templates``; each is compiled once.

    Parameters
    ----------
    package : str
        Name of the package.
    **filters : callable
        Filters for its templates, by name.

    Examples
    --------
    >>> templates = Templates("driftbandit.serving.page")
    >>> "<p>a &lt; b</p>" in templates.render("refusal.html", title="Not Found", detail="a < b", signed_in=False)
    True
    """

    def __init__(self, package: str, **filters: Callable[..., object]) -> None:
        self._environment = Environment(
            loader=PackageLoader(package),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            auto_reload=False,
        )
        del self._environment.filters["safe"]
        self._environment.filters.update(filters)

    def render(self, template: str, /, **values: object) -> Markup:
        """Fill a template; the result can be given to another one."""
        return Markup(self._environment.get_template(template).render(values))
