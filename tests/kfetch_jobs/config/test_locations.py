"""A location's text means the same directory or file system for kfetch as for Hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch.storage.locations import local_path, place
from kfetch_jobs import config
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.errors import ConfigError
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT

HDFS = "spark.hadoop.fs.defaultFS: hdfs://namenode:8020"


def the_job(project: Path, checkpoint: str, table: str = "t", spark: str = "") -> config.Job:
    text = JOB.replace("${storage}/clicks/table", f"'{table}'") + f"checkpoint: '{checkpoint}'\n"
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    if spark:
        settings = PROJECT.replace("spark:\n", f"spark:\n  {spark}\n")
        (project / "conf" / "kfetch.yml").write_text(settings)
    return config.load(config.find(project), ENVIRON).job("clicks")


@pytest.mark.parametrize(
    "uri", ["dbfs:/lake/ck", "hdfs:/ck", "s3a://bucket/ck", "hdfs://namenode/ck", "viewfs:///ck"]
)
def test_other_file_systems(project: Path, uri: str) -> None:
    """A scheme with one slash is a URI too. Nothing of it becomes a local directory."""
    job = the_job(project, uri, uri)

    assert (uri, uri, None) == (job.checkpoint, job.target.path, local_directory(job))


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("file:/data/ck", "/data/ck"),
        ("file:///data/ck", "/data/ck"),
        ("file:/data/a%20b", "/data/a%20b"),
        ("file:/data/a?b#c", "/data/a?b#c"),
        ("/data/a:b", "/data/a:b"),
        ("./a:b", "{}/conf/a:b"),
        ("a/b:c", "{}/conf/a/b:c"),
    ],
)
def test_directories_of_this_machine(project: Path, text: str, directory: str) -> None:
    """Hadoop takes file: for this machine, and decodes no percent sign."""
    assert Path(directory.format(project)) == local_directory(the_job(project, text))


@pytest.mark.parametrize(
    "text", ["s3a:bucket/ck", "data:2024", ":/ck", "1a:/ck", "file:ck", "file://host/ck"]
)
@pytest.mark.parametrize("key", ["checkpoint", "sink.path"])
def test_texts_that_hadoop_refuses(project: Path, key: str, text: str) -> None:
    """They are mistakes of the file, with their line, and no directories."""
    arguments = ("ck", text) if key == "sink.path" else (text, "t")
    line = 11 if key == "sink.path" else 14
    with pytest.raises(ConfigError) as caught:
        the_job(project, *arguments)

    sentence = caught.value.mistakes[0]
    assert sentence.startswith(f"conf/jobs/clicks.yml:{line}: {key} is {text!r}: a ")


@pytest.mark.parametrize(
    "text",
    [
        "s3a://AKIAX:verySecret@bucket/ck",
        "s3n://AKIAX:very/Secret@bucket/ck",
        "s3a://verySecret@bucket/ck",
        "s3a:AKIAX:verySecret@bucket/ck",
        "gs://AKIAX:verySecret@bucket/ck",
        "hdfs://user:verySecret@host/ck",
    ],
)
@pytest.mark.parametrize("key", ["checkpoint", "sink.path"])
def test_keys_in_a_location(project: Path, key: str, text: str) -> None:
    """Locations are shown, so keys in one are a mistake of the file. Its sentence shows none."""
    with pytest.raises(ConfigError) as caught:
        the_job(project, *(("ck", text) if key == "sink.path" else (text, "t")))

    line = 11 if key == "sink.path" else 14
    assert [
        f"conf/jobs/clicks.yml:{line}: {key}: a location must have no access keys: {_INSTEAD}"
    ] == [*caught.value.mistakes]


_INSTEAD = "put them into the settings of Spark, such as spark.hadoop.fs.s3a.access.key"


@pytest.mark.parametrize("name", ["spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name"])
@pytest.mark.parametrize("file", ["kfetch.yml", "jobs/clicks.yml"])
def test_keys_in_the_default_file_system(project: Path, file: str, name: str) -> None:
    """They are such a mistake, too, in each file with settings of Spark."""
    path = project / "conf" / file
    setting = f"  {name}: hdfs://user:verySecret@host\n"
    spark = "spark:\n"
    text = path.read_text()
    path.write_text(
        text.replace(spark, spark + setting) if spark in text else text + spark + setting
    )
    with pytest.raises(ConfigError) as caught:
        config.load(config.find(project), ENVIRON).job("clicks")

    line = 2 if file == "kfetch.yml" else 14
    assert [
        f"conf/{file}:{line}: spark: {name}: a location must have no access keys: {_INSTEAD}"
    ] == [*caught.value.mistakes]


@pytest.mark.parametrize(
    "uri",
    [
        "abfss://lake@shop.dfs.core.windows.net/ck",
        "hdfs://user@namenode:8020/ck",
        "hdfs://namenode:8020/a@b",
        "s3a://bucket/a:b@c",
        "s3a:/a:b",
        "s3a:///a:b@c",
        "file:/data/x:y@z",
    ],
)
def test_signs_of_keys_that_are_none(project: Path, uri: str) -> None:
    """A container, a user without a password, a port and a path are no keys."""
    assert uri == the_job(project, uri).checkpoint


def test_another_default_file_system(project: Path) -> None:
    """A path without a scheme is there then, and only file: is here."""
    assert local_directory(the_job(project, "/ck", spark=HDFS)) is None
    assert Path("/ck") == local_directory(the_job(project, "file:/ck"))


@pytest.mark.parametrize(
    ("spark", "local"),
    [
        ({}, True),
        ({"spark.hadoop.fs.defaultFS": "file:///"}, True),
        ({"spark.hadoop.fs.defaultFS": "s3a://bucket"}, False),
        ({"spark.hadoop.fs.default.name": "hdfs://namenode"}, False),
    ],
)
def test_settings_of_the_default(spark: dict[str, str], local: bool) -> None:
    """Hadoop's old name of the setting counts as well."""
    assert (Path("/ck") if local else None) == local_path("/ck", spark)


@pytest.mark.parametrize("storage", ["dbfs:/jobs", "file:/jobs", "s3a://bucket/jobs", "a:b"])
def test_the_storage_is_local(project: Path, storage: str) -> None:
    """Logs and locks need a directory of this machine."""
    (project / "conf" / "kfetch.yml").write_text(PROJECT.replace("../data", storage))
    with pytest.raises(ConfigError, match=r"kfetch\.yml:1: storage must be a local directory"):
        config.load(config.find(project), ENVIRON)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/ck", "file:///data//ck/"),
        ("s3a://lake/ck", "s3://lake//ck/"),
        ("s3a://lake/ck", "s3n://lake/a/../ck"),
        ("abfss://c@a.dfs.x.y/ck", "abfs://c@a.dfs.x.y/ck"),
        ("hdfs://name/ck", "HDFS://name/ck/"),
    ],
)
def test_texts_of_one_place(one: str, other: str) -> None:
    """Comparisons of two jobs see through them."""
    assert place(one, {}) == place(other, {})
    assert place(one, {}) != place(f"{one}2", {})


def test_the_default_file_system_is_part_of_a_place() -> None:
    """There, a path without a scheme is one of its URIs."""
    spark = {"spark.hadoop.fs.defaultFS": "s3a://lake"}
    assert place("s3a://lake/ck", spark) == place("/ck", spark) != place("file:/ck", spark)
    assert place("s3a:///ck", spark) == place("/ck", spark) != place("hdfs:///ck", spark)
