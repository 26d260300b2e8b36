"""Adds the kind `measure` to the table of kinds; Python imports it at start from PYTHONPATH."""

from __future__ import annotations

from shared.kind import KINDS, Capability, Trial, WorkerKind

KINDS["measure"] = WorkerKind(
    name="measure",
    title="Measure",
    module="measure",
    extra="measure",
    settings_path="measure.settings:MeasureSettings",
    route_modules=("measure.route",),
    capabilities=(Capability("measuring", unserved="no model measures; use --measure-model"),),
    trial=Trial("/v1/measure", '{"input":"two words"}'),
    recognises=lambda folder: (folder / "measure.json").is_file(),
)
