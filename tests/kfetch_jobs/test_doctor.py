"""``kfetch doctor``: each piece when it is well, and when it is not."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from kfetch_jobs import doctor
from kfetch_jobs.doctor import Finding, Grade
from tests.kfetch.wire.little import DESCRIBE_ONLY, LittleKafka
from tests.kfetch.wire.scripted import ScriptedBroker
from tests.kfetch_jobs.commands import Command

OK, WARN, FAIL = Grade.OK, Grade.WARN, Grade.FAIL


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience with a broker that is away; a living one may need more on a busy machine."""
    monkeypatch.setattr(doctor, "LOOKUP_TIMEOUT_S", 0.2)


def test_a_machine_that_fits(
    kfetch: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project with a reachable cluster passes all checks. They leave no file."""
    with LittleKafka(2) as kafka:
        monkeypatch.setenv("SERVERS", kafka.bootstrap)
        monkeypatch.setattr(doctor, "java", lambda: Finding(grade=OK, subject="java", text="21"))
        code, out, _ = kfetch("doctor", "--json")
    told = {each["what"]: each["state"] for each in json.loads(out)}

    assert 0 == code
    assert {"ok"} == {state for what, state in told.items() if what != "decoder"}
    assert {"python", "java", "pyspark", "pyarrow", "delta-spark", "decoder", "open files"} < {
        *told
    }
    assert {"jobs", "storage", "cluster local"} < {*told}
    assert not (project / "data").exists()


@pytest.mark.usefixtures("short_timeouts")
def test_a_cluster_that_is_away(
    kfetch: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what to do, and the exit code is 1; a mistake in a job is a line too."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")
    (project / "conf/jobs/broken.yml").write_text("a: 1\n")
    code, out, _ = kfetch("doctor")

    assert 1 == code
    assert "fail  cluster local: " in out
    assert "; start the cluster, or correct clusters.local.bootstrap.servers in kfetch.yml" in out
    assert "fail  jobs: conf/jobs/broken.yml" in out


def test_a_broker_at_an_address_that_nobody_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bootstrap server answers, and names a broker at an address that clients can't reach."""
    with LittleKafka(2) as kafka:
        kafka.nodes[2].stop()
        servers = f"127.0.0.1:{kafka.nodes[1].port}"
        found = list(doctor.cluster("main", {"bootstrap.servers": servers}))

    assert [OK, FAIL] == [finding.grade for finding in found]
    assert "broker 2 (127.0.0.1:" in found[1].text
    assert "advertised.listeners" in found[1].advice


def test_a_topic_that_a_job_may_not_read(
    kfetch: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clusters are asked about the topics of their jobs. A missing topic is no failure here."""
    with LittleKafka() as kafka:
        monkeypatch.setenv("SERVERS", kafka.bootstrap)
        absent = kfetch("doctor")[1]
        kafka.create("clicks")
        kafka.operations["clicks"] = DESCRIBE_ONLY
        code, out, _ = kfetch("doctor")

    assert "clicks" not in "".join(line for line in absent.splitlines() if "cluster" in line)
    assert 1 == code
    assert ("describe it and not read it; add the operation READ with kafka-acls.sh") in next(
        line for line in out.splitlines() if line.startswith("fail  cluster local: the ACLs")
    )


def test_a_topic_that_may_not_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the topic and the missing operation, and gives no advice about addresses."""

    def deny(name: str, version: int) -> Any:
        entry = MetadataResponse.MetadataResponseTopic
        return entry(version=version, error_code=29, name=name, partitions=[])

    with LittleKafka() as kafka:
        monkeypatch.setattr(kafka, "metadata_topic", deny)
        servers = {"bootstrap.servers": kafka.bootstrap}
        (found,) = doctor.cluster("main", servers, ["clicks"])

    assert (FAIL, "") == (found.grade, found.advice)
    assert "describe topic clicks: the operation DESCRIBE is missing; add it with" in found.text


def test_a_listener_that_wants_a_log_in() -> None:
    """The text says what listens there, and the advice which option to set, at once."""
    with ScriptedBroker() as listener:
        listener.always(
            SaslHandshakeRequest, SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
        )
        servers = f"127.0.0.1:{listener.port}"
        (found,) = doctor.cluster("main", {"bootstrap.servers": servers})

    assert FAIL is found.grade
    assert f"{servers} expects a log-in by SASL (PLAIN)" == found.text
    assert found.advice.startswith("Set security.protocol=SASL_PLAINTEXT")


def test_properties_that_are_wrong() -> None:
    """The sentence comes from the source. kfetch tries no connection."""
    (found,) = doctor.cluster("main", {"bootstrap.servers": "x"})
    assert (FAIL, "correct clusters.main in kfetch.yml or env/") == (found.grade, found.advice)


def test_outside_of_a_project(
    kfetch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine alone, and a line that says so; a project file that is wrong fails."""
    monkeypatch.chdir(tmp_path)
    assert "warn  project: there is none here" in kfetch("doctor")[1]
    (tmp_path / "kfetch.yml").write_text("storage: x\n")
    code, out, _ = kfetch("doctor")
    assert 1 == code
    assert "fail  project: kfetch.yml" in out


REQUIRES = ["pyspark==4.2.0; extra == 'jobs'", "pyarrow>=18", "numpy>=2"]


@pytest.mark.parametrize(
    ("version", "state", "advice"),
    [
        ("4.2.0", OK, ""),
        ("4.1.0", FAIL, "pip install 'pyspark==4.2.0'"),
        (None, FAIL, "pip install 'pyspark==4.2.0'"),
    ],
)
def test_versions_that_fit(version: str | None, state: Grade, advice: str) -> None:
    """Installed versions are compared with the requirements in kfetch's metadata."""
    installed = {"pyspark": version, "pyarrow": "20.0"}
    found = {finding.subject: finding for finding in doctor.packages(REQUIRES, installed.get)}

    assert {"pyspark", "pyarrow"} == found.keys()
    assert (state, advice) == (found["pyspark"].grade, found["pyspark"].advice)
    assert found["pyarrow"].grade is OK


@pytest.mark.parametrize(
    ("soft", "hard", "state"),
    [(1024, 4096, OK), (1024, resource.RLIM_INFINITY, OK), (256, 1024, WARN)],
)
def test_open_files(soft: int, hard: int, state: Grade) -> None:
    """The hard limit decides, because the JVM uses it."""
    assert state is doctor.files(soft, hard).grade


def test_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java that is too old or missing fails, with its advice in a field."""
    monkeypatch.setenv("KFETCH_JAVA", str(tmp_path))
    found = doctor.java()
    assert FAIL is found.grade
    assert found.advice.startswith("install Java 17 or later")


def test_the_decoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A decoder that is not compiled is a warning with the command. The check compiles nothing."""
    monkeypatch.setenv("KFETCH_CACHE", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = doctor.decoder()

    assert (WARN, "kfetch warm") == (found.grade, found.advice)
    assert [] == list(tmp_path.iterdir())


def test_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage need not exist yet. One that is not writable or almost full gets a sentence."""
    assert OK is doctor.storage(tmp_path / "a" / "b").grade
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    found = doctor.storage(tmp_path / "file")
    assert (FAIL, True) == (found.grade, "can't be written" in found.text)
    name = tmp_path / ("x" * 300)  # like a directory that may not be entered, but for root too
    found = doctor.storage(name)
    assert (FAIL, f"{name} can't be written: File name too long") == (found.grade, found.text)
    monkeypatch.setattr(doctor, "_FREE_BYTES_MIN", 1 << 60)
    assert WARN is doctor.storage(tmp_path).grade
