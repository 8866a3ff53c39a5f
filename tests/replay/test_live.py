"""The real proxy between a simulated engine and a real Prometheus."""

import asyncio
import math
from pathlib import Path

from .live import LONGER, SETTINGS, SLOWED, Site, firing, regress


def test_a_slower_engine_raises_the_alert_and_longer_prompts_do_not(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.running() as api:
        asyncio.run(regress(site, api))
        fired = firing(api, seconds=300)
        # What the alert on the other upstream had to withstand, seen at the worst moment.
        slower = f'model:tokometer_tpot_log_ratio:raw{{upstream="{LONGER}"}}'
        covered = f'model:tokometer_tpot_coverage:ratio{{upstream="{LONGER}"}} > 0.5'
        ((_, raw),) = api.instant(f"max_over_time(({slower} and {covered})[20s:1s])")
    assert fired == {("DecodeRegression", SLOWED)}
    assert math.exp(raw) > SETTINGS.regression_index
