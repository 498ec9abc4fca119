"""Seals and opens packets of ESP by scapy: lines of hexadecimal in, lines of hexadecimal out.

scapy.py seal|open ALGORITHM KEY AUTH SPI FROM TO [extended]

Lines are IP packets. What cannot be opened becomes a line that begins with "refused".
"""
import sys

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation

ALGORITHMS = {
    "aes-128-gcm": ("AES-GCM", "NULL"),
    "aes-128-cbc-hmac-sha1": ("AES-CBC", "HMAC-SHA1-96"),
    "aes-128-cbc-hmac-sha256": ("AES-CBC", "SHA2-256-128"),
}


def packet(octets):
    return IPv6(octets) if octets[0] >> 4 == 6 else IP(octets)


def main():
    what, algorithm, key, auth, spi, source, destination = sys.argv[1:8]
    extended = sys.argv[8:] == ["extended"]
    cipher, signature = ALGORITHMS[algorithm]
    outer = IPv6 if ":" in source else IP
    association = SecurityAssociation(
        ESP,
        spi=int(spi),
        crypt_algo=cipher,
        crypt_key=bytes.fromhex(key),
        auth_algo=signature,
        auth_key=bytes.fromhex(auth),
        tunnel_header=outer(src=source, dst=destination),
        esn_en=extended,
        esn=0,
    )
    for line in sys.stdin:
        it = packet(bytes.fromhex(line.strip()))
        if what == "seal":
            done = association.encrypt(it)
        else:
            try:
                done = association.decrypt(it)
            except Exception as why:
                print("refused:", type(why).__name__, str(why).replace("\n", " "))
                continue
        print(bytes(done).hex())


main()
