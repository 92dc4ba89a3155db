#!/usr/bin/env python3
"""Runs the application for os-ken without any of os-ken's own commands.

    run.py --config FILE [--mode proactive|reactive] [--listen ADDRESS:PORT]

FILE is that of `heddle controller`. What was counted is printed as JSON at each SIGUSR1 and at the end.
"""

import argparse
import ipaddress
import logging
import os
import pathlib
import signal
import sys
import tomllib

from os_ken import cfg
from os_ken.base import app_manager

from islands import Islands


def address(text: str) -> tuple[str, int]:
    host, _, port = text.removeprefix("tcp:").rpartition(":")
    return str(ipaddress.ip_address(host.strip("[]"))), int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description="Joins islands of named data by OpenFlow.")
    parser.add_argument("--config", required=True, type=pathlib.Path)
    parser.add_argument("--mode", choices=["proactive", "reactive"])
    parser.add_argument("--listen", type=address, default=("127.0.0.1", 6653))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        Islands.settings = tomllib.loads(args.config.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"error: {args.config}: {error}")
    if args.mode:
        Islands.settings["mode"] = args.mode
    host, port = args.listen
    cfg.CONF(args=[], project="islands", version="1")
    cfg.CONF.set_override("ofp_listen_host", host)
    cfg.CONF.set_override("ofp_tcp_listen_port", port)
    cfg.CONF.set_override("echo_request_interval", Islands.settings.get("echo_ms", 250) / 1000)
    cfg.CONF.set_override("maximum_unreplied_echo_requests", 3)

    def running() -> Islands | None:
        return app_manager.lookup_service_brick(Islands.__name__)

    def show(*_) -> None:
        if app := running():
            print(app.status(), flush=True)

    def stop(*_) -> None:
        show()
        # os-ken's threads wait for switches that may never say anything again.
        os._exit(0)

    signal.signal(signal.SIGUSR1, show)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    app_manager.AppManager.run_apps(["islands"])


if __name__ == "__main__":
    main()
