"""A first connection to a real listener that kfetch cannot read from: its sentence, in its time.

One broker has a listener of each protocol. Beside it there are ``openssl s_server``, Python's HTTP
server, and a port that accepts connections and says nothing.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfetch.admin import brokers
from kfetch.errors import KfetchError, WrongListener
from kfetch.options import NetworkOptions
from kfetch.wire.connection import Connection
from kfetch_jobs import doctor
from kfetch_jobs.config.job import with_property_names
from kfetch_jobs.kafka import Cluster, ready
from kfetch_jobs.util.process import wait_until

HOST = "127.0.0.1"
EXPLAINED_S = 5.0
WAIT_S = 6.0
SENTENCES = {
    "ssl": "expects TLS: it needs kafka.security.protocol=SSL or SASL_SSL. Set that option, or",
    "openssl": "expects TLS: it needs kafka.security.protocol=SSL or SASL_SSL. Set that option, or",
    "sasl": (
        "expects a log-in by SASL (PLAIN, SCRAM-SHA-512). Set "
        "kafka.security.protocol=SASL_PLAINTEXT (with TLS: SASL_SSL), kafka.sasl.mechanism "
        "and kafka.sasl.jaas.config"
    ),
    "controller": "is the listener of a KRaft controller, which serves no topics. Name the",
    "http": "answers HTTP, so no Kafka broker listens there. Correct kafka.bootstrap.servers",
}


@dataclass(frozen=True)
class Answer:
    """What ``kfetch check`` says about an address, after how many seconds."""

    error: KfetchError
    took_s: float


def check(port: int) -> Answer:
    """Ask as ``kfetch check`` does."""
    began = time.monotonic()
    with pytest.raises(KfetchError) as caught:
        brokers.check({"kafka.bootstrap.servers": f"{HOST}:{port}"}, wait_s=WAIT_S)
    return Answer(caught.value, time.monotonic() - began)


def examine(port: int) -> str:
    """Ask as ``kfetch doctor`` does, and return its line."""
    (finding,) = doctor.cluster("main", {"bootstrap.servers": f"{HOST}:{port}"})
    assert finding.grade is doctor.Grade.FAIL
    return f"{finding.text}. {finding.advice}"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a key and a certificate for it."""
    key, cert, both = (tmp_path / name for name in ("key.pem", "cert.pem", "both.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    both.write_text(key.read_text() + cert.read_text())
    return both


@pytest.fixture
def others(certificate: Path, tmp_path: Path) -> Iterator[dict[str, int]]:
    """The ports of an HTTP server and of ``openssl s_server``."""
    http, tls = ready.free_ports(2)
    serve_http = [sys.executable, "-m", "http.server", str(http), "--bind", HOST]
    serve_tls = ["openssl", "s_server", "-accept", f"{HOST}:{tls}", "-cert", certificate]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    with (
        subprocess.Popen(serve_http, **quiet) as first,
        subprocess.Popen(serve_tls, stdin=subprocess.PIPE, **quiet) as second,
    ):
        try:
            for port in (http, tls):
                assert wait_until(lambda p=port: not ready.is_free(p), time.monotonic() + 20)
            yield {"http": http, "openssl": tls}
        finally:
            first.kill()
            second.kill()


@contextmanager
def silent_port() -> Iterator[int]:
    """A port whose connections are accepted and never answered."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def connecting_to(port: int) -> Iterator[list[KfetchError]]:
    """Connect again and again meanwhile. Yields the errors."""
    errors: list[KfetchError] = []
    done = threading.Event()

    def connect() -> None:
        while not done.wait(0.05):
            try:
                deadline = time.monotonic() + 1
                Connection.open(HOST, port, NetworkOptions(), deadline).close()
            except KfetchError as error:
                errors.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        yield errors
    finally:
        done.set()
        thread.join()


def listeners(ports: dict[str, int], certificate: Path) -> dict[str, str]:
    """Properties of a broker with a listener of each protocol."""
    at = {name: f"//{HOST}:{port}" for name, port in ports.items()}
    login = "org.apache.kafka.common.security"
    clients = f"BROKER:{at['broker']},SECURE:{at['ssl']},LOGIN:{at['sasl']}"
    return {
        "listeners": f"{clients},CONTROLLER:{at['controller']}",
        "advertised_listeners": clients,
        "listener_security_protocol_map": (
            "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL,LOGIN:SASL_PLAINTEXT"
        ),
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(certificate),
        "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener_name_login_plain_sasl_jaas_config": (
            f'{login}.plain.PlainLoginModule required user_a="b";'
        ),
        "listener_name_login_scram-sha-512_sasl_jaas_config": (
            f"{login}.scram.ScramLoginModule required;"
        ),
    }


def test_each_wrong_listener_is_explained_within_five_seconds(
    kafka_cluster: Callable[..., Cluster],
    others: dict[str, int],
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``check`` and ``doctor`` name TLS, SASL, HTTP and a controller, each with the option to set.

    A silent port is named after five seconds. A broker that is starting is never accused.
    """
    free = ready.free_ports(4)
    ports = dict(zip(("broker", "controller", "ssl", "sasl"), free, strict=True))
    monkeypatch.setattr(ready, "free_ports", lambda count: free[:count])
    monkeypatch.setattr(doctor, "LOOKUP_TIMEOUT_S", WAIT_S)
    with silent_port() as silent, ThreadPoolExecutor(max_workers=14) as pool:
        began = time.time()
        asked = {"silent": silent, **others}
        answers = {name: pool.submit(check, port) for name, port in asked.items()}
        lines = {name: pool.submit(examine, port) for name, port in asked.items()}
        with connecting_to(ports["broker"]) as errors:
            kafka_cluster(nodes=1, **listeners(ports, certificate))
        asked |= {name: ports[name] for name in ("ssl", "sasl", "controller")}
        for name in asked.keys() - answers.keys():
            answers[name] = pool.submit(check, asked[name])
            lines[name] = pool.submit(examine, asked[name])
        mute = answers.pop("silent").result()

    for name, future in answers.items():
        answer, sentence = future.result(), f"{HOST}:{asked[name]} {SENTENCES[name]}"
        print(f"{name}: {answer.took_s:.2f} s: {answer.error.message}")
        assert isinstance(answer.error, WrongListener)
        assert sentence in answer.error.message
        assert with_property_names(sentence) in lines[name].result()
        assert answer.took_s < EXPLAINED_S

    sentence = f"{HOST}:{silent} accepts connections, but has said nothing for"
    warning = next(r for r in caplog.records if f"{sentence} 5 s. A broker that" in r.message)
    print(f"silent: {warning.created - began:.2f} s: {warning.message}")
    assert warning.created - began < EXPLAINED_S + 2  # the test's own threads share two cores
    assert sentence in mute.error.message
    assert sentence in lines["silent"].result()
    assert not isinstance(mute.error, WrongListener)

    assert errors
    assert [] == [str(error) for error in errors if isinstance(error, WrongListener)]
