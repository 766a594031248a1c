"""Draw the report of a run as docs/report.png, in Chromium: `make report-png RUN=runs/20250102-030405`.

.venv/bin/python docs/report_png.py RUN_DIR [RUN_DIR ...]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from fl_dp.reporting.page.render import render_page
from fl_dp.reporting.run_folder import RunFolder

_WINDOW = (1200, 1700)  # pixels: the top of the page
_SHOWN = 0.6  # of that size, in the README
_COLORS = 64
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

if len(sys.argv) < 2:
    sys.exit("name a run: make report-png RUN=runs/NAME")
browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
if browser is None:
    sys.exit("no Chromium on this machine; on Debian: apt-get install chromium")
target = Path(__file__).parent / "report.png"
with tempfile.TemporaryDirectory() as folder:
    page, drawn = Path(folder) / "report.html", Path(folder) / "report.png"
    page.write_text(render_page(RunFolder(Path(sys.argv[1]).absolute())), encoding="utf-8")
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder}/p",
    )
    size = f"--window-size={_WINDOW[0]},{_WINDOW[1]}"
    subprocess.run(
        [browser, *options, size, f"--screenshot={drawn}", page.as_uri()],
        check=True,
        timeout=120,
        stderr=subprocess.DEVNULL,
    )
    with Image.open(drawn) as picture:
        small = picture.convert("RGB").resize(
            (round(_WINDOW[0] * _SHOWN), round(_WINDOW[1] * _SHOWN)), Image.Resampling.LANCZOS
        )
        small.quantize(_COLORS, dither=Image.Dither.NONE).save(target, optimize=True)
print(f"{target}: {target.stat().st_size / 1024:.0f} KiB")
