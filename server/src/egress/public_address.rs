//! Which addresses belong to the public Internet. All others are private or special: this machine, its
//! network, a cloud's metadata service, or a v6 address that embeds such a v4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is globally routable.
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
            | (100, 64..=127, _)          // carrier-grade NAT
            | (169, 254, _)               // link-local, metadata services
            | (172, 16..=31, _)           // private
            | (192, 0, 0 | 2)             // protocol assignments, documentation
            | (192, 31, 196)              // AS112
            | (192, 52, 193)              // AMT
            | (192, 88, 99)               // 6to4 relays
            | (192, 168, _)               // private
            | (192, 175, 48)              // AS112
            | (198, 18 | 19, _)           // benchmarking
            | (198, 51, 100)              // documentation
            | (203, 0, 113) // documentation
    )
}

/// Only 2000::/3 is allocated as global unicast; its special ranges are excluded.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<IpAddr> {
        text.split_whitespace().map(|address| address.parse().expect("an address")).collect()
    }

    #[test]
    fn private_addresses_are_not_public() {
        let inside = all("
            0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.255
            169.254.0.0 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.1 192.0.0.255 192.0.2.1 192.31.196.1
            192.52.193.1 192.88.99.1 192.168.0.0 192.168.255.255 192.175.48.1 198.18.0.0 198.19.255.255
            198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
            :: ::1 ::2 ::127.0.0.1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::8.8.8.8
            64:ff9b:1::1 100::1 2001::1 2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1
            3fff::1 3fff:fff::1 5f00::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1 feff::1 ff00::1 ff02::1
        ");
        for address in inside {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn global_addresses_are_public() {
        let outside = all("
            1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
            169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.1 192.167.255.255 192.169.0.0
            198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255
            2001:200::1 2001:4860:4860::8888 2003::1 2606:4700::1111 2a00::1 3ffe::1
        ");
        for address in outside {
            assert!(is_public(address), "{address}");
        }
    }
}
