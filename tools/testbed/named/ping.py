"""Round trips, with python-ndn.

    ping.py serve PREFIX
    ping.py ask PREFIX COUNT

`ask` prints the round-trip times in milliseconds of those that came back.
"""

import json
import logging
import random
import sys
import time

from ndn.app import NDNApp
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest
from ndn.transport.stream_face import TcpFace
from ndn.types import InterestCanceled, InterestNack, InterestTimeout

app = NDNApp(face=TcpFace("127.0.0.1", 6363), keychain=KeychainDigest())


async def ask(prefix: str, count: int) -> None:
    rtt_ms = []
    first = random.randrange(10**9)
    for number in range(count):
        name = Name.from_str(prefix) + [Component.from_str(str(first + number))]
        start = time.perf_counter()
        try:
            await app.express_interest(name, must_be_fresh=True, lifetime=4000)
            rtt_ms.append((time.perf_counter() - start) * 1000)
        except (InterestCanceled, InterestNack, InterestTimeout):
            pass
    print(json.dumps({"rtt_ms": rtt_ms}))
    app.shutdown()


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    match sys.argv[1:]:
        case ["serve", prefix]:

            @app.route(prefix)
            def answer(name, _parameters, _application_parameters):
                app.put_data(name, content=b"here", freshness_period=1)

            async def ready() -> None:
                print("ready", file=sys.stderr, flush=True)

            app.run_forever(after_start=ready())
        case ["ask", prefix, count]:
            app.run_forever(after_start=ask(prefix, int(count)))
        case _:
            sys.exit(__doc__)


main()
