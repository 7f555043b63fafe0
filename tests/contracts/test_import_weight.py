"""Importing ``lance_core`` must not load an orchestrator, a cluster framework, or a cloud client."""

import json
import subprocess
import sys

HEAVY = [
    "dagster",
    "pyspark",
    "pandas",
    "lance",
    "s3fs",
    "obstore",
    "fsspec",
    "boto3",
    "numba",
    "grpc",
    "sqlglot",
    "datafusion",
]

REFUSE_IMPORTS = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"dagster", "dagster_pyspark", "pyspark", "pandas", "lance"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
"""


def test_importing_lance_core_loads_only_lightweight_packages():
    program = f"import sys, json, lance_core; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_lance_core_works_without_spark_and_dagster(tmp_path):
    uri = str(tmp_path / "t.lance")
    program = f"""{REFUSE_IMPORTS}
import lance_core
import pyarrow as pa
table = pa.table({{"x": [1, 2, 3]}})
lance_core.write_dataset(table, {uri!r})
lance_core.write_dataset(table, {uri!r}, mode="append")
assert lance_core.dataset({uri!r}).to_table() == pa.concat_tables([table, table]).combine_chunks()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
