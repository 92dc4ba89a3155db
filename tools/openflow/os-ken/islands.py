"""Joins islands of named data by the OpenFlow switches before them: the application of `heddle controller`, for os-ken.

`run.py` starts it. Announcements are the JSON form, through switches or by UDP. Proactive mode installs flows once a name is
announced; reactive mode when a switch has an Interest for it, which is handed back once the flow is there. A switch that knows no names asks
about each Interest in either mode. State is not kept: islands announce their names again.
"""

import json
import pathlib
import socket
import threading
import time
from dataclasses import dataclass, field

import ndn
import oxm
from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_cls,
)
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3

oxm.teach()

GROUP, ANNOUNCEMENT_PORT = "224.0.23.170", 46363
UDP, IPV4 = 17, 0x0800
COOKIE = 0x4F53 << 48
COOKIE_MASK = 0xFFFF << 48
ANNOUNCEMENT, NAME, UNKNOWN_NAME, PATCH = 30_000, 20_000, 10_000, 1_000
MAX_NAMES_AT_ONCE = 16_384
MAX_WAITING = 256
DOWN = 1


@dataclass
class Island:
    """An island of the configuration."""

    name: str
    datapath_id: int
    forwarder: str
    island_port: int = 1
    network_port: int = 2
    port: int = 6363
    next_hop: str | None = None
    ttl: int = 128
    cost: int = 0
    names: list = field(default_factory=list)


@dataclass
class Switch:
    """A switch that is connected."""

    datapath: object
    islands: list[int]
    knows_names: bool = False
    is_ready: bool = False
    probe: int | None = None
    put: int | None = None
    ports: dict[int, bool] = field(default_factory=dict)
    flows: dict[tuple[int, bytes], int] = field(default_factory=dict)
    waiting: dict[int, tuple[tuple[int, bytes], list]] = field(default_factory=dict)


class Islands(app_manager.OSKenApp):
    """The application."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    settings: dict = {}
    """The configuration, set before the application starts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        known = Island.__dataclass_fields__
        self.islands = []
        for entry in self.settings["island"]:
            entry = {key: value for key, value in entry.items() if key in known}
            entry["datapath_id"] = int(str(entry["datapath_id"]).replace(":", ""), 16)
            self.islands.append(Island(**entry))
        self.gateway = self.settings["gateway"]
        self.is_reactive = self.settings.get("mode") == "reactive"
        self.hold_s = self.settings.get("hold_ms", 900) / 1000
        self.max_names = self.settings.get("max_names", 100_000)
        program = self.settings.get("program")
        self.program = None
        if self.settings.get("matching") == "program":
            self.program = (program.get("id", 1), pathlib.Path(program["file"]).read_bytes())
        self.switches: dict[int, Switch] = {}
        self.counters: dict[str, int] = {}
        # prefix -> island -> (cost, until)
        self.routes: dict[bytes, dict[int, tuple[int, float | None]]] = {}
        for index, island in enumerate(self.islands):
            for name in island.names:
                prefix = ndn.parse_uri(name["name"])
                self.routes.setdefault(prefix, {})[index] = (name.get("cost", 0), None)
        self.lock = threading.RLock()
        hub.spawn(self.expire)
        if address := self.settings.get("announcements"):
            host, _, port = address.rpartition(":")
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((host, int(port)))
            hub.spawn(self.listen)

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    # Switches

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        datapath = event.msg.datapath
        behind = [i for i, island in enumerate(self.islands) if island.datapath_id == datapath.id]
        with self.lock:
            if not behind:
                self.count("switches_unknown")
                return
            self.switches[datapath.id] = Switch(datapath, behind)

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def state_changed(self, event):
        datapath = event.datapath
        with self.lock:
            switch = self.switches.get(datapath.id)
            if switch is None or switch.datapath is not datapath:
                return
            if event.state == MAIN_DISPATCHER:
                parser = datapath.ofproto_parser
                self.send(switch, parser.OFPSetConfig(datapath, 0, 0xFFFF))
                switch.ports = {
                    number: not (port.config | port.state) & DOWN
                    for number, port in datapath.ports.items()
                }
                switch.probe = self.send(switch, oxm.ask_for_programs(datapath))
            else:
                del self.switches[datapath.id]
                self.reconsider_islands(switch.islands)

    @set_ev_cls(ofp_event.EventOFPExperimenterStatsReply, MAIN_DISPATCHER)
    def programs_told(self, event):
        with self.lock:
            switch = self.switches.get(event.msg.datapath.id)
            if switch is None or event.msg.xid != switch.probe:
                return
            switch.probe, switch.knows_names = None, True
            if self.program is None:
                self.set_up(switch)
                return
            for message in oxm.put_program(switch.datapath, *self.program):
                switch.put = self.send(switch, message)

    @set_ev_cls(ofp_event.EventOFPExperimenter, MAIN_DISPATCHER)
    def acknowledged(self, event):
        with self.lock:
            switch = self.switches.get(event.msg.datapath.id)
            is_ack = event.msg.experimenter == oxm.PROGRAMS and event.msg.exp_type == oxm.ACK
            if switch and is_ack and event.msg.xid == switch.put:
                switch.put = None
                self.set_up(switch)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def refused(self, event):
        with self.lock:
            switch = self.switches.get(event.msg.datapath.id)
            if switch and event.msg.xid == switch.probe:
                # It does not know our experimenter.
                switch.probe = None
                self.set_up(switch)
            elif switch and event.msg.xid == switch.put:
                switch.put, switch.knows_names = None, False
                self.set_up(switch)
            else:
                self.count("errors_from_switches")
                self.logger.warning("refused: type %s code %s", event.msg.type, event.msg.code)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_changed(self, event):
        message = event.msg
        with self.lock:
            if switch := self.switches.get(message.datapath.id):
                port = message.desc
                is_deleted = message.reason == message.datapath.ofproto.OFPPR_DELETE
                is_up = not is_deleted and not (port.config | port.state) & DOWN
                switch.ports[port.port_no] = is_up
                self.reconsider_islands(switch.islands)

    def send(self, switch: Switch, message) -> int:
        switch.datapath.send_msg(message)
        return message.xid

    def set_up(self, switch: Switch) -> None:
        """Takes away what an earlier run has left and installs what does not depend on names, and names in proactive mode."""
        datapath = switch.datapath
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        self.send(
            switch,
            parser.OFPFlowMod(
                datapath,
                cookie=COOKIE,
                cookie_mask=COOKIE_MASK,
                table_id=ofproto.OFPTT_ALL,
                command=ofproto.OFPFC_DELETE,
                out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
            ),
        )
        ask = [parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, 0xFFFF)]
        asks = self.is_reactive or not switch.knows_names
        networks: dict[int, list] = {}
        for index in switch.islands:
            island = self.islands[index]
            announced = self.udp(island, GROUP, ANNOUNCEMENT_PORT)
            self.install(switch, ANNOUNCEMENT, announced, ask)
            unknown = self.udp(island, self.gateway, island.port)
            self.install(switch, UNKNOWN_NAME, unknown, ask if asks else [])
            out = [parser.OFPActionOutput(island.network_port)]
            self.install(switch, PATCH, {"in_port": island.island_port}, out)
            back = networks.setdefault(island.network_port, [])
            back.append(parser.OFPActionOutput(island.island_port))
        for network, back in networks.items():
            self.install(switch, PATCH, {"in_port": network}, back)
        switch.is_ready = True
        if not self.is_reactive:
            for prefix in self.routes:
                self.update(switch, prefix)
        self.send(switch, parser.OFPBarrierRequest(datapath))
        self.count("switches_set_up")
        self.logger.info(
            "switch %016x is set up: it %s",
            datapath.id,
            "knows names" if switch.knows_names else "knows no names",
        )
        self.reconsider_islands(switch.islands)

    @staticmethod
    def udp(island: Island, destination: str, port: int) -> dict:
        return {
            "in_port": island.island_port,
            "eth_type": IPV4,
            "ip_proto": UDP,
            "ipv4_dst": destination,
            "udp_dst": port,
        }

    def install(self, switch: Switch, priority: int, match: dict, actions: list | None) -> None:
        """Adds a flow, or takes it away where there are no actions but nothing."""
        datapath = switch.datapath
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        instructions = []
        if actions:
            apply = ofproto.OFPIT_APPLY_ACTIONS
            instructions = [parser.OFPInstructionActions(apply, actions)]
        command = ofproto.OFPFC_DELETE_STRICT if actions is None else ofproto.OFPFC_ADD
        self.send(
            switch,
            parser.OFPFlowMod(
                datapath,
                cookie=COOKIE,
                command=command,
                priority=priority,
                out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
                match=parser.OFPMatch(**match),
                instructions=instructions,
            ),
        )

    # Names

    def named(self, island: Island, prefix: bytes) -> tuple[int, dict]:
        """Priority and match of the flow for a prefix."""
        match = self.udp(island, self.gateway, island.port)
        if self.program is None:
            match |= oxm.name_match(prefix)
        else:
            match |= oxm.program_match(self.program[0], prefix)
        return NAME + len(ndn.components(prefix)), match

    def way(self, switch: Switch, local: Island, remote: Island) -> list:
        """What carries an Interest to another island."""
        parser = switch.datapath.ofproto_parser
        actions = [
            parser.OFPActionSetField(ipv4_dst=remote.forwarder),
            parser.OFPActionSetField(udp_src=local.port),
            parser.OFPActionSetField(udp_dst=remote.port),
            parser.OFPActionSetNwTtl(local.ttl),
        ]
        if local.next_hop:
            actions.append(parser.OFPActionSetField(eth_dst=local.next_hop))
        is_here = local.datapath_id == remote.datapath_id
        port = remote.island_port if is_here else local.network_port
        return actions + [parser.OFPActionOutput(port)]

    def is_up(self, island: Island) -> bool:
        switch = self.switches.get(island.datapath_id)
        return bool(
            switch
            and switch.is_ready
            and switch.ports.get(island.island_port)
            and switch.ports.get(island.network_port)
        )

    def choose(self, local: int, prefix: bytes) -> int | None:
        """The island that serves a prefix for another: one that is up, at the least cost."""
        ranked = [
            (not self.is_up(self.islands[index]), cost, index)
            for index, (cost, _) in self.routes.get(prefix, {}).items()
            if index != local
        ]
        return min(ranked)[2] if ranked else None

    def reconsider_islands(self, islands: list[int]) -> None:
        self.reconsider([p for p, routes in self.routes.items() if routes.keys() & set(islands)])

    def reconsider(self, prefixes: list[bytes]) -> None:
        for switch in self.switches.values():
            if switch.is_ready:
                for prefix in prefixes:
                    self.update(switch, prefix)

    def update(self, switch: Switch, prefix: bytes) -> None:
        """Brings a switch up to date about a prefix."""
        if not switch.knows_names:
            return
        for local in switch.islands:
            key = (local, prefix)
            installed, chosen = switch.flows.get(key), self.choose(local, prefix)
            shadowed = any((local, shorter) in switch.flows for shorter in ndn.prefixes(prefix)[1:])
            if chosen is None and installed is not None:
                del switch.flows[key]
                self.install(switch, *self.named(self.islands[local], prefix), None)
            elif chosen not in (None, installed):
                if not self.is_reactive or installed is not None or shadowed:
                    self.add(switch, key, chosen)

    def add(self, switch: Switch, key: tuple[int, bytes], remote: int) -> None:
        local = self.islands[key[0]]
        switch.flows[key] = remote
        self.count("flows_added")
        actions = self.way(switch, local, self.islands[remote])
        self.install(switch, *self.named(local, key[1]), actions)

    def announce(self, index: int, text: bytes) -> None:
        try:
            entries = json.loads(text)
            if not isinstance(entries, list) or len(entries) > MAX_NAMES_AT_ONCE:
                raise ndn.Malformed("no list")
        except (ValueError, RecursionError):
            self.count("announcements_malformed")
            return
        changed = []
        if not entries:
            changed = [prefix for prefix, routes in self.routes.items() if index in routes]
            for prefix in changed:
                self.withdraw(index, prefix)
        until = time.monotonic() + self.hold_s if self.hold_s else None
        have = sum(index in routes for routes in self.routes.values())
        for entry in entries:
            try:
                prefix = ndn.parse_uri(entry["name"])
                cost = entry.get("cost", self.islands[index].cost)
                if not isinstance(cost, int) or isinstance(cost, bool) or cost < 0:
                    raise ndn.Malformed("no cost")
            except (AttributeError, KeyError, TypeError, ValueError):
                self.count("names_bad")
                continue
            old = self.routes.get(prefix, {}).get(index)
            if entry.get("withdraw") is True:
                if old:
                    self.withdraw(index, prefix)
                    changed.append(prefix)
                continue
            if old is None:
                if have >= self.max_names:
                    self.count("names_beyond_limit")
                    continue
                have += 1
            if old is None or old[0] != cost:
                changed.append(prefix)
            self.routes.setdefault(prefix, {})[index] = (cost, until)
        self.reconsider(changed)

    def withdraw(self, index: int, prefix: bytes) -> None:
        routes = self.routes.get(prefix, {})
        routes.pop(index, None)
        if not routes:
            self.routes.pop(prefix, None)

    def expire(self) -> None:
        while True:
            hub.sleep(0.05)
            now = time.monotonic()
            with self.lock:
                ended = [
                    (index, prefix)
                    for prefix, routes in self.routes.items()
                    for index, (_, until) in routes.items()
                    if until is not None and until <= now
                ]
                for index, prefix in ended:
                    self.withdraw(index, prefix)
                self.reconsider([prefix for _, prefix in ended])

    def listen(self) -> None:
        while True:
            text, (address, _) = self.socket.recvfrom(65_536)
            with self.lock:
                self.count("announcements_by_udp")
                for index, island in enumerate(self.islands):
                    if island.forwarder == address:
                        self.announce(index, text)

    # Packets

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        with self.lock:
            switch = self.switches.get(message.datapath.id)
            port = message.match["in_port"]
            local = next(
                (i for i in switch.islands if self.islands[i].island_port == port)
                if switch
                else iter(()),
                None,
            )
            datagram = ndn.datagram(message.data)
            if local is None or datagram is None:
                self.count("packets_other")
                return
            destination, payload = datagram
            if destination == ANNOUNCEMENT_PORT:
                self.count("announcements_by_packet_in")
                self.announce(local, payload)
                return
            try:
                name = ndn.interest_name(payload)
            except ndn.Malformed:
                name = None
            if name is None:
                self.count("packets_other")
                return
            self.count("interests")
            self.interest(switch, local, name, message)

    def interest(self, switch: Switch, local: int, name: bytes, message) -> None:
        prefix = next((p for p in ndn.prefixes(name) if self.choose(local, p) is not None), None)
        if prefix is None:
            self.count("interests_without_route")
            return
        key, remote = (local, prefix), self.choose(local, prefix)
        actions = self.way(switch, self.islands[local], self.islands[remote])
        packet = (message.match["in_port"], actions, message.buffer_id, message.data)
        parser = switch.datapath.ofproto_parser
        if switch.knows_names and key not in switch.flows:
            self.add(switch, key, remote)
            # Longer prefixes that others announce must not be caught by it.
            longer = [p for p in self.routes if p != prefix and p.startswith(prefix)]
            for other in longer:
                self.update(switch, other)
            barrier = self.send(switch, parser.OFPBarrierRequest(switch.datapath))
            switch.waiting[barrier] = (key, [])
        count = sum(len(packets) for _, packets in switch.waiting.values())
        for of, packets in switch.waiting.values():
            if of == key and count < MAX_WAITING:
                packets.append(packet)
                return
        self.packet_out(switch, packet)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def flow_is_there(self, event):
        with self.lock:
            switch = self.switches.get(event.msg.datapath.id)
            if switch and event.msg.xid in switch.waiting:
                _, packets = switch.waiting.pop(event.msg.xid)
                for packet in packets:
                    self.packet_out(switch, packet)

    def packet_out(self, switch: Switch, packet: tuple) -> None:
        in_port, actions, buffer_id, data = packet
        datapath = switch.datapath
        no_buffer = datapath.ofproto.OFP_NO_BUFFER
        self.send(
            switch,
            datapath.ofproto_parser.OFPPacketOut(
                datapath,
                buffer_id=buffer_id,
                in_port=in_port,
                actions=actions,
                data=data if buffer_id == no_buffer else None,
            ),
        )
        self.count("interests_forwarded")

    def status(self) -> str:
        with self.lock:
            return json.dumps(
                {
                    "counters": self.counters,
                    "prefixes": len(self.routes),
                    "flows": sum(len(switch.flows) for switch in self.switches.values()),
                    "switches": sum(switch.is_ready for switch in self.switches.values()),
                }
            )
