"""The commands that run processes, and those that show what the processes do. Heavy imports wait until a command needs
them."""

from pathlib import Path
from typing import Annotated

import typer

from quarterdeck.local_crew.handed_settings import taken_over, wait_handed
from quarterdeck.terminal import options as opt
from quarterdeck.terminal.telling import exit_code_of


def up(
    ctx: typer.Context,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1000, help="How many workers.  [default: one for each core, at least 2]")
    ] = None,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="Where all processes keep their files; one `up` at a time may use it.",
            file_okay=False,
            callback=opt.whole,
        ),
    ] = opt.DEFAULT_DATA_DIR,
    http_port: Annotated[
        int | None, typer.Option(help="Port for people and programs; 0 takes any free port.  [default: 7070]")
    ] = None,
    control_port: Annotated[
        int | None, typer.Option(help="Port where more workers join; 0 takes any free port.  [default: 7071]")
    ] = None,
    keep_back: Annotated[int, typer.Option(min=0, max=1000, help="How many workers nobody may reserve.")] = 1,
    logs: Annotated[bool, typer.Option("--logs", help="Show the logs here, instead of writing them to files.")] = False,
    config: opt.ConfigFile = None,
    settings: opt.Settings = None,
) -> None:
    """Run a coordinator and workers on this machine.

    The workers share the cores and the memory. A process that dies is started again. Ctrl-C stops all of them in order:
    running queries may finish for a while. A second Ctrl-C ends them at once.

    --set goes to all processes that have the setting. With `worker.` or `coordinator.` before the name it goes only to
    those.

    Examples:

      quarterdeck up

      quarterdeck up --workers 8 --data-dir /var/lib/quarterdeck

      quarterdeck up --http-port 8080 --set log_level=debug --set worker.slots=2
    """
    from quarterdeck.cli.up import run  # noqa: PLC0415
    from quarterdeck.local_crew.crew_plan import CrewRequest  # noqa: PLC0415 - loaded when it is needed

    opt.parse_settings(settings)
    request = CrewRequest(workers, data_dir, http_port, control_port, config, settings or (), keep_back)
    raise typer.Exit(exit_code_of(lambda: run(request, ctx.obj, show_logs=logs)))


def status(
    url: opt.Url = opt.DEFAULT_URL,
    watch: Annotated[
        bool | None,
        typer.Option("--watch/--once", help="Refresh until Ctrl-C, or show it once.  [default: watch, on a terminal]"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs; with --watch a line each second.")
    ] = False,
    tenant: opt.LookingTenant = None,
    token_file: opt.TokenFile = None,
    authority: opt.Authority = None,
    insecure: opt.InClear = False,
) -> None:
    """Show the crew and its queries, live.

    Shows each worker with its state, its running work, its disk and when it was last heard from. Above is what waits,
    below are the last queries.

    Examples:

      quarterdeck status

      quarterdeck status --once --url http://10.0.0.7:7070

      quarterdeck status --json | jq '.crew.workers[].state'
    """
    from quarterdeck.cli.status import run  # noqa: PLC0415
    from quarterdeck.terminal.client import Access  # noqa: PLC0415 - loaded when it is needed

    access = Access(url, token_file, authority, insecure)
    raise typer.Exit(exit_code_of(lambda: run(access, watch=watch, as_json=as_json, tenant=tenant)))


def token(
    url: opt.Url = opt.DEFAULT_URL,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="The data folder of `up` or of one process, instead of --url.", file_okay=False, callback=opt.whole
        ),
    ] = None,
) -> None:
    """Print the token of a crew of yours on this machine, for curl and other programs.

    `quarterdeck up` makes the token, and keeps it in its data folder where only you can read it. Commands of
    `quarterdeck` find it by themselves. On this machine, reading metrics needs no token: the API of Prometheus, health
    and /metrics.

    Examples:

      quarterdeck token

      curl -H "Authorization: Bearer $(quarterdeck token)" http://127.0.0.1:7070/v1/crew

      QUARTERDECK_TOKEN=$(quarterdeck token --data-dir quarterdeck-data) some-program
    """
    from quarterdeck.cli.token import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(exit_code_of(lambda: run(url, data_dir)))


def warm(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Keep the compiled code in this data folder and nowhere else, for the crew that will use the folder.  "
            "[default: beside the installed package, or where a start would keep it]",
            file_okay=False,
            callback=opt.whole,
        ),
    ] = None,
    lifeline: opt.Lifeline = None,
) -> None:
    """Compile ahead what the first start would compile, for images.

    Queries run code that is compiled for the processor of the machine. Without this command the first
    start on a machine compiles it: one process compiles for half a minute or more, and the others wait. Nothing is
    compiled twice. Processes load compiled code only from folders that nobody except root and their own user can write,
    so an image may compile as root and run as anybody. On another kind of processor the first start compiles again.

    Examples:

      quarterdeck warm

      quarterdeck warm --data-dir /var/lib/quarterdeck

    \b
      # Dockerfile
      FROM python:3.12-slim
      RUN pip install quarterdeck && quarterdeck warm
      USER 65534
      CMD ["quarterdeck", "up", "--data-dir", "/data"]
    """
    from quarterdeck.cli.warm import run  # noqa: PLC0415 - loaded when it is needed

    raise typer.Exit(exit_code_of(lambda: run(ctx.obj, data_dir, lifeline)))


def coordinator(
    ctx: typer.Context,
    config: opt.ConfigFile = None,
    data_dir: opt.DataDir = None,
    http_host: Annotated[
        str | None, typer.Option(help="Address for people and programs.  [default: 127.0.0.1]")
    ] = None,
    http_port: Annotated[int | None, typer.Option(help="Its port; 0 takes any free port.  [default: 7070]")] = None,
    control_host: Annotated[str | None, typer.Option(help="Address where workers join.  [default: 127.0.0.1]")] = None,
    control_port: Annotated[int | None, typer.Option(help="Its port; 0 takes any free port.  [default: 7071]")] = None,
    dial: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Dial this worker. Repeat for more workers.")
    ] = None,
    insecure: opt.Insecure = None,
    log_level: opt.LogLevel = None,
    settings: opt.Settings = None,
    lifeline: opt.Lifeline = None,
    handed_settings: opt.HandedSettings = None,
) -> None:
    """Run a coordinator: it plans, gives work to the crew, and answers over HTTP.

    Workers join it, or it dials workers that were started with --listen. It stops on SIGTERM: running queries may
    finish for a while, then they are canceled. A second signal stops it at once.

    Examples:

      quarterdeck coordinator

      quarterdeck coordinator --http-port 8080 --dial 10.0.0.7:7072 --dial 10.0.0.8:7072
    """
    from quarterdeck.cli.processes import run_coordinator  # noqa: PLC0415 - loaded when it is needed

    flags = opt.merge_flags(
        opt.parse_settings([*taken_over(handed_settings), *(settings or ())]),
        data_dir=data_dir,
        http_host=http_host,
        http_port=http_port,
        control_host=control_host,
        control_port=control_port,
        workers=dial,
        insecure=insecure,
        log_level=log_level,
    )
    raise typer.Exit(exit_code_of(lambda: run_coordinator(ctx.obj, config, flags, lifeline)))


def worker(
    ctx: typer.Context,
    config: opt.ConfigFile = None,
    data_dir: opt.DataDir = None,
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="Join this coordinator. Repeat to join more.  [default: 127.0.0.1:7071]"
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Let coordinators dial this worker, instead of joining them."),
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="How many works run at once.  [default: the cores]")] = None,
    http_host: Annotated[str | None, typer.Option(help="Address for fetching results.  [default: 127.0.0.1]")] = None,
    http_port: Annotated[int | None, typer.Option(help="Its port; 0 takes any free port.  [default: 0]")] = None,
    insecure: opt.Insecure = None,
    log_level: opt.LogLevel = None,
    settings: opt.Settings = None,
    lifeline: opt.Lifeline = None,
    handed_settings: opt.HandedSettings = None,
    handed_when: opt.HandedWhen = None,
) -> None:
    """Run a worker: it executes what coordinators give it, and caches what it reads.

    It stops on SIGTERM: it takes nothing new, hands back work that has not begun, and finishes what runs until the
    results are fetched. A second signal stops it at once.

    Examples:

      quarterdeck worker --join 127.0.0.1:7071

      quarterdeck worker --listen 127.0.0.1:7072 --slots 4 --data-dir /var/lib/quarterdeck/worker
    """
    from quarterdeck.cli.processes import load_worker_ahead, run_worker  # noqa: PLC0415 - loaded when it is needed

    if handed_when is not None:
        load_worker_ahead(ctx.obj)
        wait_handed(handed_when)
    flags = opt.merge_flags(
        opt.parse_settings([*taken_over(handed_settings), *(settings or ())]),
        data_dir=data_dir,
        join=join,
        control_listen=listen,
        slots=slots,
        http_host=http_host,
        http_port=http_port,
        insecure=insecure,
        log_level=log_level,
    )
    raise typer.Exit(exit_code_of(lambda: run_worker(ctx.obj, config, flags, lifeline)))


def simulate(
    ctx: typer.Context,
    seed: Annotated[int | None, typer.Option(help="Replay this one seed, and print what happened.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Play this many seeds, one scenario each.")] = 1000,
    start: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Play for this long, instead of a number of seeds.")
    ] = None,
    faults: Annotated[
        str, typer.Option(help="Which faults may happen: names separated by commas, `all`, or `none`.")
    ] = "all",
    scenario: Annotated[
        Path | None, typer.Option(help="Replay a scenario that was saved when it failed.", dir_okay=False)
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="How many processes play.  [default: the cores]")] = None,
    shrink: Annotated[bool, typer.Option(help="Make a failing scenario as small as it can be.")] = True,
    trace: Annotated[bool, typer.Option(help="With --seed or --scenario: print everything that happened.")] = False,
) -> None:
    """Run random disasters through the coordinator and the workers, and check that nothing was lost.

    The real coordinator and worker code runs on a simulated network, clock and disk. Processes crash and pause,
    connections break, replies are lost after they took effect, clocks jump. After every step the promises are checked:
    no work is committed twice, forgotten or left behind. If a seed fails, it is printed, and anyone can replay it. A
    capability may have a world of its own, with a flag; without a flag the crew is played.

    Examples:

      quarterdeck simulate --seeds 1000

      quarterdeck simulate --seed 42 --trace

      quarterdeck simulate --minutes 10 --faults crash,partition
    """
    from quarterdeck.cli.simulate import chosen_drama, replay, replay_file, run_many  # noqa: PLC0415 - loaded when it is needed

    drama = chosen_drama(ctx.obj, ctx.args)
    if scenario is not None:
        raise typer.Exit(replay_file(drama, scenario, show_trace=trace, shrinking=shrink))
    if seed is not None:
        raise typer.Exit(replay(drama, seed, faults, show_trace=trace, shrinking=shrink))
    raise typer.Exit(run_many(drama, start, seeds, minutes, faults, jobs, shrinking=shrink))
