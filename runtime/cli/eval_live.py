"""`flyball eval turns --live`: the comparison of turn limits with a real model."""

import argparse
import json
import sys
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from pathlib import Path

import httpx

from governor.pricing import ModelPrice
from runtime.errors import RuntimeFaultError
from runtime.evaluate.live_model import LiveModel
from runtime.evaluate.live_tasks import read_tasks
from runtime.evaluate.live_turns import TURNS_MAX, LiveEvaluation, evaluate_live
from runtime.settings import Settings, secret_from_environment, unset

_USD_MAX = Decimal(1_000_000)
_MICRO = 1_000_000
_COUNT_MAX = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a live comparison needs."""
    live = parser.add_argument_group(
        "with a real model", "it is told its limits; unlike in a replay it can finish sooner"
    )
    live.add_argument("--live", action="store_true", help="ask a model instead of replaying")
    live.add_argument("--tasks", type=Path, metavar="FILE.jsonl", help="id, prompt, check")
    live.add_argument("--base-url", metavar="URL", help="default: FLYBALL_MODEL_URL")
    live.add_argument("--key-env", metavar="VARIABLE", help="the variable that holds the key")
    live.add_argument("--model", metavar="NAME", help="default: FLYBALL_MODEL_NAME")
    live.add_argument("--max-usd", type=_usd, default=Decimal(1), help="default: 1.00")
    live.add_argument("--input-usd-per-mtok", type=_usd, metavar="USD", help="the model's price")
    live.add_argument("--output-usd-per-mtok", type=_usd, metavar="USD", help="the model's price")
    live.add_argument("--turns-max", type=_count, default=TURNS_MAX, help=f"default: {TURNS_MAX}")
    live.add_argument("--output-tokens-max", type=_count, default=512, help="default: 512")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the comparison; return 0.

    Raises:
        RuntimeFaultError: something that it needs is missing, or no comparison came about.
    """
    base_url = arguments.base_url or settings.model_url
    prices = (arguments.input_usd_per_mtok, arguments.output_usd_per_mtok)
    if arguments.tasks is None:
        raise RuntimeFaultError("--live needs --tasks FILE.jsonl")
    if base_url is None or not base_url.startswith(("http://", "https://")):
        raise RuntimeFaultError(
            f"--live needs --base-url, an http:// or https:// address ending before /chat; "
            f"it is {base_url!r}"
        )
    if None in prices:
        raise RuntimeFaultError(
            "--live needs --input-usd-per-mtok and --output-usd-per-mtok: what has no price "
            "cannot be capped; 0 is a price too"
        )
    tasks = read_tasks(arguments.tasks)
    cap_microusd = _micro(arguments.max_usd)
    with httpx.Client(base_url=base_url, headers=_headers(arguments, settings)) as client:
        model = LiveModel(
            client,
            name=arguments.model or settings.model_name,
            price=ModelPrice(
                input_microusd_per_mtok=_micro(prices[0], rounding=ROUND_CEILING),
                output_microusd_per_mtok=_micro(prices[1], rounding=ROUND_CEILING),
            ),
            cap_microusd=cap_microusd,
            output_tokens_max=arguments.output_tokens_max,
        )
        evaluation = evaluate_live(
            model,
            tasks,
            cap_microusd=cap_microusd,
            seed=arguments.seed,
            turns_max=arguments.turns_max,
        )
    if arguments.json:
        sys.stdout.write(json.dumps(evaluation.shape(), allow_nan=False) + "\n")
    else:
        sys.stdout.write(_text(evaluation))
    return 0


def _headers(arguments: argparse.Namespace, settings: Settings) -> dict[str, str]:
    key = None if settings.model_key is None else settings.model_key.get_secret_value()
    if arguments.key_env is not None:
        key = secret_from_environment(arguments.key_env)
        if key is None:
            raise RuntimeFaultError(f"--key-env: {unset(arguments.key_env)}")
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _usd(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= _USD_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount from 0 to {_USD_MAX}")
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_COUNT_MAX}")
    return int(text)


def _micro(usd: Decimal, *, rounding: str | None = None) -> int:
    return int((usd * _MICRO).to_integral_value(rounding=rounding))


def _text(evaluation: LiveEvaluation) -> str:
    compared = f"{evaluation.tasks_compared} of {evaluation.tasks} tasks"
    spent, cap = evaluation.spent_microusd / _MICRO, evaluation.cap_microusd / _MICRO
    lines = [
        f"Turn limits with a real model, {compared} (seed {evaluation.seed}):",
        f"  {'':<12}{'cost saved':>11}{'solve rate':>12}{'cost of pass':>14}{'mean turns':>12}",
    ]
    for score in evaluation.scores:
        ratio = "-" if score.cost_of_pass_ratio is None else f"{score.cost_of_pass_ratio:.3f}"
        lines.append(
            f"  {score.name:<12}{100 * score.cost_saved:>9.1f} %"
            f"{score.solve_rate_delta_pp:>9.2f} pp{ratio:>14}{score.mean_turns:>12.1f}"
        )
    lines.append(
        f"Spent ${spent:.4f} of ${cap:.4f}" + ("; the cap ended it" if evaluation.is_capped else "")
    )
    lines += [f"failed: {failure}" for failure in evaluation.failures]
    return "\n".join(lines) + "\n"
