"""`flyball eval router`: what routing between tiers gains on prompts with known outcomes."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.evaluate.router.evaluation import Wish, evaluate_router
from runtime.evaluate.router.rows_file import read_outcomes
from runtime.word_vectors import vectors_if_any

NAME = "router"
HELP = (
    "Measure the router on prompts of which it is known what each tier makes of them: what it "
    "recovers of the gap between tiers, and what it scores within a budget."
)
# What the columns of the budgets mean, a line each.
_LEGEND = (
    "  budget: dollars a prompt that may be spent; spent: the share of it that routing used",
    "  score: what routing scores; best mix: the best fixed mixture of tiers for the same money",
    "  gain: routing less that mixture, in hundredths of the score (pp), and its 95 % interval",
    "  oracle: what who knew every outcome would score; one pass: dollars for one prompt solved",
    "  way: how tiers were chosen (routed by prompt, or one mixture for all)",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files, and how much of them is learned from."""
    parser.add_argument(
        "--outcomes",
        type=Path,
        metavar="FILE.jsonl",
        help="a prompt a line: id, group, prompt, tiers {NAME: {score, cost}}, features",
    )
    parser.add_argument(
        "--labels", type=int, metavar="N", help="learn from so many prompts, drawn by lot"
    )
    parser.add_argument(
        "--test", type=Path, metavar="FILE.jsonl", help="judge on these prompts instead of folds"
    )
    parser.add_argument(
        "--ablation", action="store_true", help="also show what each part brings (takes longer)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of splits and lots; default: 0")


def run(arguments: argparse.Namespace, show: Callable[[str], None]) -> int:
    """Print the evaluation; return 0.

    Raises:
        RuntimeFaultError: a file is not usable, or has too few prompts.
    """
    recorded = read_outcomes(arguments.outcomes)
    tested = read_outcomes(arguments.test, tiers=recorded.tiers) if arguments.test else None
    wish = Wish(
        labels=arguments.labels,
        tested=tested,
        seed=arguments.seed,
        ablation=arguments.ablation,
    )
    shape = evaluate_router(recorded, wish, vectors=vectors_if_any(), begun=show)
    if arguments.json:
        sys.stdout.write(json.dumps(shape, allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(shape))
    return 0


def _text(shape: dict[str, Any]) -> str:
    lines = [
        f"Routing judged on {shape['n']} prompts, learned from {shape['labels']} others:",
    ]
    if shape["left_out"]:
        lines.append(f"{shape['left_out']} prompts without an outcome in every tier left out.")
    lines += ["", f"  {'tier':<40}{'score':>8}{'dollars':>12}{'for one pass':>14}"]
    lines += [
        f"  {tier['name']:<40.40}{tier['score']:>8.4f}{_dollars(tier['cost']):>12}"
        f"{_dollars(tier['cost_of_pass']):>14}"
        for tier in shape["tiers"]
    ]
    lines += [
        "",
        *_recovery(shape),
        "",
        *_spending(shape),
        "",
        *_certainty(shape),
        "",
        *_LEGEND,
        "",
        _bandit(shape["bandit"]),
    ]
    if "ablation" in shape:
        lines += ["", "  Gap recovered by each part alone:"]
        lines += [f"    {name:<24}{_figure(apgr)}" for name, apgr in shape["ablation"].items()]
    lines += ["", _verdict(shape["matched_spend"])]
    return "\n".join(lines) + "\n"


def _verdict(spending: list[dict[str, Any]]) -> str:
    """Return in a sentence whether routing pays, by what is gained at the same spend."""
    sure = [entry for entry in spending if (entry["gain_ci95_pp"] or (0.0,))[0] > 0]
    best = max(sure or spending, key=lambda entry: entry["gain_pp"], default=None)
    if best is None:
        return "Nothing is known of what routing would bring here."
    words = "is expected to pay" if sure else "is not shown to pay"
    return (
        f"Routing {words} here: {best['gain_pp']:+.2f} pp of score over the best fixed mixture of "
        f"tiers at {_dollars(best['budget'])} a prompt."
    )


def _recovery(shape: dict[str, Any]) -> list[str]:
    if shape["apgr"] is None:
        return ["  The cheapest tier is the best one: there is no gap to recover."]
    low, high = shape["apgr_ci95"] or (None, None)
    return [
        f"  Gap recovered (APGR):  {_figure(shape['apgr'])}  ({_figure(low)} to {_figure(high)})",
        f"  in unseen groups:      {_figure(shape['apgr_unseen_groups'])}",
        f"  by lot and by oracle:  0.500, {_figure(shape['apgr_oracle'])}",
        f"  calls to the best tier for half of the gap (CPT50):  {shape['cpt50']:.1f} %",
        f"  and for four fifths of it (CPT80):                   {shape['cpt80']:.1f} %",
    ]


def _spending(shape: dict[str, Any]) -> list[str]:
    names = f"  {'budget':>12}{'spent':>9}{'score':>9}{'best mix':>10}{'gain':>10}"
    lines = [f"{names}{'95 %':>18}{'oracle':>9}{'one pass':>12}  way"]
    for entry in shape["matched_spend"]:
        low, high = entry["gain_ci95_pp"] or (0.0, 0.0)
        lines.append(
            f"  {_dollars(entry['budget']):>12}{100 * entry['spend_ratio']:>7.1f} %"
            f"{entry['score']:>9.4f}"
            f"{entry['best_mix_score']:>10.4f}{entry['gain_pp']:>+7.2f} pp"
            f"{f'{low:+.2f} to {high:+.2f}':>18}{entry['oracle_score']:>9.4f}"
            f"{_dollars(entry['cost_of_pass']):>12}  {entry['plan']}"
        )
        for plan, gain in entry.get("gain_pp_of_plan", {}).items():
            lines.append(f"{'':>42}{gain:>+9.2f} pp  {plan} throughout")
    return [*lines, f"  At worst {shape['do_no_harm_pp']:+.2f} pp against the best mixture."]


def _certainty(shape: dict[str, Any]) -> list[str]:
    certainty = shape["certainty"]
    share = f"{100 * certainty['stated']:.0f} %"
    names = f"{'quality off by':>16}{'raw':>8}{'scores within':>15}{'costs within':>14}"
    lines = [f"  {f'forecasts, intervals of {share}':<40}{names}{'dear/cheap':>12}"]
    lines += [
        f"  {tier['name']:<40.40}{tier['calibration_error']:>16.4f}"
        f"{tier['calibration_error_raw']:>8.4f}{100 * tier['score_coverage']:>13.1f} %"
        f"{100 * tier['cost_coverage']:>12.1f} %{_figure(tier['cost_ratio'], '.3g'):>12}"
        for tier in certainty["tiers"]
    ]
    return lines


def _bandit(bandit: dict[str, Any]) -> str:
    share = bandit["share_of_full_information"]
    if share is None:
        return "  Learning while serving: nothing to gain, or too few prompts."
    return (
        f"  Learning while serving, told {bandit['delay']} calls late and only of what was chosen: "
        f"{100 * share:.0f} % of what full information gains."
    )


def _dollars(value: float | None) -> str:
    return "-" if value is None else f"${value:.6f}"


def _figure(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else f"{value:{form}}"
