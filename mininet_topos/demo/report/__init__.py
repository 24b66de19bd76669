"""The demo's report folder: `results.json` for programs, `report.html` and `demo.svg` for readers."""
