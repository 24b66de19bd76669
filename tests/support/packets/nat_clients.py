"""Real clients and servers for traffic through a NAT gateway, run in namespaces: `python nat_clients.py ROLE ...`.

    serve ADDRESS PORT                      TCP: one request, one reply, the server closes first; UDP: an echo
    connect TARGET PORT COUNT CLIENTS       COUNT short TCP connections by CLIENTS processes
    spread TARGET PORT COUNT SECONDS        COUNT UDP requests, each from a port of its own, spread over SECONDS
    stream TARGET PORT BYTES BPS SECONDS    UDP datagrams of BYTES
    count PORT SECONDS                      counts whole datagrams until SECONDS passed without one
    hold TARGET PORT                        one TCP connection; sends after each line on standard input

Each role prints one line of JSON. No part of the project is imported.
"""

import json
import os
import resource
import select
import socket
import sys
import threading
import time

TIMEOUT_S = 20.0
BODY = b"x" * 100
SO_RCVBUFFORCE = 33  # socket(7)
FIRST_PORT = 5000  # above 4791: RoCEv2, which gateways do not translate


def serve(address, port):
    tcp = socket.create_server((address, port), backlog=4096)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    udp.bind((address, port))  # replies have it as their source
    threading.Thread(target=echo, args=(udp,), daemon=True).start()
    print(json.dumps({"serves": port}), flush=True)
    while True:
        connection, _ = tcp.accept()
        threading.Thread(target=reply, args=(connection,), daemon=True).start()


def echo(udp):
    while True:
        data, sender = udp.recvfrom(65536)
        udp.sendto(data, sender)


def reply(connection):
    with connection:
        try:
            while (data := connection.recv(1000)) and data != BODY:
                connection.sendall(data)  # of `hold`
            connection.sendall(BODY)
        except OSError:
            pass


def connect(target, port, count, clients):
    began, children = time.monotonic(), []
    for _ in range(clients):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            failed = sum(not one_connection(target, port) for _ in range(count // clients))
            os.write(write_end, str(failed).encode())
            os._exit(0)
        os.close(write_end)
        children.append((pid, read_end))
    failed = 0
    for pid, read_end in children:
        failed += int(os.read(read_end, 100) or count)
        os.waitpid(pid, 0)
    print(json.dumps({"connections": count, "failed": failed, "seconds": time.monotonic() - began}))


def one_connection(target, port):
    try:
        with socket.create_connection((target, port), TIMEOUT_S) as connection:
            connection.sendall(BODY)
            got = b""
            while data := connection.recv(1000):
                got += data
            return got == BODY
    except OSError:
        return False


def spread(target, port, count, seconds):
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    poll, began, unanswered, replies = select.epoll(), time.monotonic(), {}, 0
    for number in range(count):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.bind(("0.0.0.0", FIRST_PORT + number))
        client.sendto(number.to_bytes(4, "big"), (target, port))
        unanswered[client.fileno()] = client
        poll.register(client.fileno(), select.EPOLLIN)
        replies += collected(poll, unanswered, 0.0)
        while (early := began + seconds * number / count - time.monotonic()) > 0:
            replies += collected(poll, unanswered, early)
    sent = time.monotonic() - began
    while unanswered and (new := collected(poll, unanswered, 2.0)):
        replies += new
    print(json.dumps({"flows": count, "replies": replies, "seconds": sent}))


def collected(poll, unanswered, wait_s):
    """Close the sockets with a reply; return how many."""
    ready = poll.poll(wait_s)
    for number, _ in ready:
        poll.unregister(number)
        unanswered.pop(number).close()
    return len(ready)


def stream(target, port, size, bps, seconds):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER, IP_PMTUDISC_DONT: without DF
    client.connect((target, port))
    began, sent, gap = time.monotonic(), 0, size * 8 / bps
    while (now := time.monotonic()) < began + seconds:
        if sent * gap > now - began:
            time.sleep(0.0005)
            continue
        client.send(sent.to_bytes(8, "big").ljust(size, b"."))
        sent += 1
    print(json.dumps({"sent": sent, "bps": sent * size * 8 / seconds}))


def count(port, seconds):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    server.bind(("0.0.0.0", port))
    print(json.dumps({"counts": port}), flush=True)
    server.settimeout(None)
    found, size = 0, 0
    while True:
        try:
            size = len(server.recv(65536))
        except TimeoutError:
            break
        found += 1
        server.settimeout(seconds)
    print(json.dumps({"received": found, "bytes": size}), flush=True)


def hold(target, port):
    with socket.create_connection((target, port), TIMEOUT_S) as connection:
        print(json.dumps({"connected": True}), flush=True)
        for line in sys.stdin:
            began = time.monotonic()
            try:
                connection.sendall(line.encode())
                outcome = connection.recv(1000).decode().strip()
            except OSError as error:
                outcome = type(error).__name__
            print(json.dumps({"outcome": outcome, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    roles = {role.__name__: role for role in (serve, connect, spread, stream, count, hold)}
    roles[sys.argv[1]](*(int(word) if word.isdigit() else word for word in sys.argv[2:]))
