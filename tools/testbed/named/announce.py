"""Tells the controller a site's names, as the seed's script did: JSON to a multicast group, again and again.

    announce.py ADDRESS NAME=COST...

The switch before the site takes the datagrams out and hands them to its controller.
"""

import json
import signal
import socket
import sys
import time

GROUP = ("224.0.23.170", 46363)
PERIOD_S = 0.25


def main() -> None:
    address, *names = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    pairs = (name.rsplit("=", 1) for name in names)
    rib = json.dumps([{"name": name, "cost": int(cost)} for name, cost in pairs])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sender.bind((address, 0))
        print("ready", file=sys.stderr, flush=True)
        while True:
            try:
                sender.sendto(rib.encode(), GROUP)
            except OSError as error:
                print(f"not sent: {error}", file=sys.stderr, flush=True)
            time.sleep(PERIOD_S)


main()
