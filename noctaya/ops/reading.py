"""The commands that look and change nothing. Each body imports what it needs when it runs, as all of `noctaya`'s do."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from noctaya.ops.terminal import (
    DEFAULT_NAMESPACE,
    Admin,
    AsJson,
    Context,
    Kubeconfig,
    Namespace,
    Watch,
    ask,
    note,
    reach,
    say,
    show,
)

ShardArgument = Annotated[
    str, typer.Argument(metavar="SHARD", help="A number, shard/17, or a service as NAMESPACE/NAME.")
]


def status(
    watch: Watch = False,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """The fleet at a glance: leader, map, workers, what moves."""
    from noctaya.ops.tables import status_lines

    client = reach(admin, kubeconfig, context, namespace)
    show(client, lambda fleet: fleet.status(), status_lines, as_json=as_json, watch=watch)


def workers(
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """The workers: state, shards, since when silent."""
    from noctaya.ops.client import AsyncClient
    from noctaya.ops.tables import worker_lines

    async def members(fleet: AsyncClient) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await fleet.status())["members"]
        return found

    show(reach(admin, kubeconfig, context, namespace), members, worker_lines, as_json=as_json)


def shards(
    worker: Annotated[
        str | None, typer.Option("--worker", help="Only those that this worker has or should have.")
    ] = None,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Every shard: who holds it, under which epoch, and who should."""
    from noctaya.ops.subjects import worker_named
    from noctaya.ops.tables import shard_lines

    pod = worker_named(worker) if worker is not None else None
    found = ask(reach(admin, kubeconfig, context, namespace), lambda fleet: fleet.shards_as_told())
    wanted = [shard for shard in found["shards"] if pod in (None, shard["pod"], shard["desired"])]
    say(wanted, lambda shown: shard_lines(shown, found["told_by"]["pod"]), as_json=as_json)


def moves(
    watch: Watch = False,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """What moves just now, and the latest moves that the leader ordered."""
    from noctaya.ops.client import AsyncClient
    from noctaya.ops.tables import move_lines, recent_lines

    async def found(fleet: AsyncClient) -> dict[str, Any]:
        told = await fleet.status()
        return {name: told[name] for name in ("told_by", "moves", "recent_moves")}

    def lines(told: dict[str, Any]) -> Iterator[str]:
        yield from move_lines(told) if told["moves"] else ("nothing moves",)
        if told["recent_moves"]:
            yield ""
            yield from recent_lines(told)

    show(reach(admin, kubeconfig, context, namespace), found, lines, as_json=as_json, watch=watch)


def owner(
    service: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="An LLMService.")],
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """The shard that a service lives in (known without any cluster), and the worker that owns it."""
    from noctaya.api.names import shard_of
    from noctaya.errors import NoctayaError
    from noctaya.ops.subjects import service_of

    where = service_of(service)
    client = reach(admin, kubeconfig, context, namespace)
    found: dict[str, Any] = {"service": service, "shard": shard_of(*where), "owner": None}
    try:
        found = ask(client, lambda fleet: fleet.owner(*where))
    except NoctayaError as error:
        found["not_known"] = str(error)
    say(found, _owner_lines, as_json=as_json)
    if "not_known" in found and not as_json:
        note(f"noctaya: whose it is cannot be told: {found['not_known']}")


def _owner_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['service']} lives in shard {found['shard']}"
    if "not_known" in found:
        return
    if found["owner"] is not None:
        yield f"owned by {found['owner']} under epoch {found['epoch']}"
    else:
        yield "owned by nobody just now"
    if found["desired"] not in (None, found["owner"]):
        yield f"should be with {found['desired']}"


def why(
    shard: ShardArgument,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Why a shard is where it is, and where it goes: who is preferred for it, and who has room."""
    from noctaya.ops.subjects import shard_named
    from noctaya.ops.tables import why_lines

    number = shard_named(shard)
    client = reach(admin, kubeconfig, context, namespace)
    show(client, lambda fleet: fleet.why(number), why_lines, as_json=as_json)


def story(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUBJECT]...",
            help="17, shard/17, NAMESPACE/NAME, worker/POD, map, leader; none: everything.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Only the latest so many.")] = 200,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """What happened, told by every worker, in the order of time."""
    from noctaya.ops.subjects import subject_named
    from noctaya.ops.tables import story_lines

    wanted = [subject_named(subject) for subject in subjects or ()]
    client = reach(admin, kubeconfig, context, namespace)
    entries = ask(client, lambda fleet: fleet.story(*wanted))
    say(entries[-limit:], story_lines, as_json=as_json)
    if len(entries) > limit:
        note(f"noctaya: {len(entries) - limit} earlier ones were left out (--limit)")
    _name_unreached(client.unreached)


def rebalance(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what levelling would move.")] = False,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """What levelling would move now, and what holds it off. The leader levels by itself."""
    from noctaya.errors import UserError
    from noctaya.ops.tables import rebalance_lines

    if not dry_run:
        raise UserError(
            "the leader levels by itself, a few shards at a time, and needs no order: --dry-run shows what it would move and "
            "what holds it off; a map that is frozen thaws by `noctaya unfreeze`"
        )
    client = reach(admin, kubeconfig, context, namespace)
    show(client, lambda fleet: fleet.rebalance(), rebalance_lines, as_json=as_json)


def plan(
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=1000, help="How many workers there would be.")
    ],
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """What another number of workers would own, and how many shards would move."""
    from noctaya.ops.tables import plan_lines

    client = reach(admin, kubeconfig, context, namespace)
    show(client, lambda fleet: fleet.plan(workers), plan_lines, as_json=as_json)


def verify(
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """What is inconsistent, each with what to do next. Ends with 1 when anything is."""
    from noctaya.ops.tables import verify_lines

    client = reach(admin, kubeconfig, context, namespace)
    findings = show(client, lambda fleet: fleet.verify(), verify_lines, as_json=as_json)
    raise typer.Exit(1 if findings else 0)


def dump(
    file: Annotated[
        str | None,
        typer.Argument(
            help="Where to write it; gzip for .gz, - for standard output. Default: a name with the time."
        ),
    ] = None,
    as_json: AsJson = False,
    admin: Admin = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Everything that every worker knows and was told, for somebody who was not there. No key is in it."""
    import json

    from noctaya.ops.errors import FileUnusable

    name = file or time.strftime("noctaya-dump-%Y%m%d-%H%M%S.json.gz")
    client = reach(admin, kubeconfig, context, namespace)
    if name == "-":
        typer.echo(json.dumps(ask(client, lambda fleet: fleet.dump_cluster_state())))
        return
    try:
        state = ask(client, lambda fleet: fleet.dump_cluster_state(name))
    except OSError as error:
        raise FileUnusable(name, error.strerror or str(error)) from error
    told = {"file": name, "workers": list(state["workers"]), "unreached": state["unreached"]}
    say(told, lambda shown: [f"wrote {name}: {', '.join(shown['workers'])}"], as_json=as_json)
    _name_unreached(state["unreached"])


def _name_unreached(unreached: dict[str, str]) -> None:
    for who, cause in unreached.items():
        note(f"noctaya: {who} was not reached: {cause}")
