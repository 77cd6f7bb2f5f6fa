"""A real schema registry of Apicurio's, which keeps its schemas in memory, for records in Avro."""

import shutil
import urllib.error
import urllib.request

from deploy.local.jars import registry_folder
from deploy.local.service import Service, Unavailable


class Registry(Service):
    """`address` is what Apicurio's own clients take, `confluent` the same registry under Confluent's API."""

    name = "registry"
    ready_within_s = 90.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/registry/v2"

    @property
    def confluent(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def prepare(self) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable(
                "Apicurio needs Java 11 or later, which is not installed (package `default-jre-headless`)"
            )
        (runner,) = registry_folder().glob("*-runner.jar")
        heap = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        where = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        return [java, *heap, *where, "-jar", str(runner)]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.confluent}/subjects", timeout=2) as said:  # noqa: S310 - our own
                return bool(said.status == 200)
        except (OSError, urllib.error.URLError):
            return False
