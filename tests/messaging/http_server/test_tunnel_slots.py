from __future__ import annotations

from messaging.http_server.tunnel_slots import TunnelSlots


def taken_by(slots: TunnelSlots, address: str, tries: int) -> int:
    return sum(not slots.arrive(address) for _ in range(tries))


def test_an_address_leaves_as_many_as_it_has_to_the_others() -> None:
    slots = TunnelSlots(8)
    assert taken_by(slots, "192.0.2.1", 10) == 4
    assert taken_by(slots, "192.0.2.2", 10) == 2
    assert "192.0.2.2 has 2 WebSockets and 2 of web_websockets_max = 8 are left" in slots.arrive("192.0.2.2")
    assert taken_by(slots, "192.0.2.3", 10) == 1
    assert taken_by(slots, "192.0.2.4", 10) == 1
    assert "all 8 WebSockets" in slots.arrive("192.0.2.5")


def test_a_customer_of_ipv6_is_one_address() -> None:
    slots = TunnelSlots(8)
    assert sum(taken_by(slots, f"2001:db8::{number}", 1) for number in range(1, 9)) == 4


def test_who_leaves_makes_room() -> None:
    slots = TunnelSlots(2)
    assert not slots.arrive("192.0.2.1")
    assert slots.arrive("192.0.2.1")
    slots.leave("192.0.2.1")
    assert not slots.arrive("192.0.2.1")
    assert (slots.taken, slots.opened, slots.refused) == (1, 2, 1)
