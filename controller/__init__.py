"""The controller of one fabric: `app` composes it; the packages and their order are in docs/architecture.md."""

if __name__ != "heddle.controller":
    raise ImportError("this package is heddle.controller: import it by that name")
