//! Which addresses belong to the public Internet. Everything else is somebody's inside: this machine, its
//! neighbours, a cloud's metadata service; or a v6 address that carries such a v4 address in itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)      // this network, private, loopback, multicast and all above it
            | (100, 64..=127, _)          // carriers' own
            | (169, 254, _)               // link-local, metadata services
            | (172, 16..=31, _)           // private
            | (192, 0, 0 | 2)             // protocol assignments, documentation
            | (192, 31, 196)              // AS112
            | (192, 52, 193)              // relays
            | (192, 88, 99)               // 6to4 relays
            | (192, 168, _)               // private
            | (192, 175, 48)              // AS112
            | (198, 18 | 19, _)           // measurements
            | (198, 51, 100)              // documentation
            | (203, 0, 113) // documentation
    )
}

/// Only 2000::/3 is given out; of it, what is not the Internet proper is taken away again.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let global = (0x2000..0x4000).contains(&a);
    let special = match a {
        0x2001 => b < 0x0200 || b == 0x0db8, // protocol assignments (Teredo, ORCHID), documentation
        0x2002 => true,                      // 6to4 carries a v4 address
        0x3fff => b < 0x1000,                // documentation
        _ => false,
    };
    global && !special
}
