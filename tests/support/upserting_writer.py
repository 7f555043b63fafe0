"""A process that upserts keys, with either implementation, while other processes upsert the same keys.

Run as ``python -m tests.support.upserting_writer library uri writer num_commits``. It says "ready", waits for a line,
and in the end prints the keys that it has upserted. What fails with a conflict is done again from the latest version.
"""

import importlib
import json
import random
import sys
from typing import Any

import pyarrow as pa

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("key", pa.int64(), nullable=False, metadata=KEY), pa.field("writer", pa.int64())])
NUM_KEYS = 30


def work(library: Any, uri: str, writer: int, num_commits: int) -> list[int]:
    """Upsert some keys in each commit; return all of them."""
    rng = random.Random(writer)
    done: set[int] = set()
    for _ in range(num_commits):
        keys = rng.sample(range(NUM_KEYS), 6)
        rows = pa.table({"key": keys, "writer": [writer] * len(keys)}, schema=SCHEMA)
        while True:
            merge = library.dataset(uri).merge_insert().when_matched_update_all().when_not_matched_insert_all()
            try:
                result = merge.execute(rows)
            except OSError as error:
                if not any(word in str(error).lower() for word in ("conflict", "contention")):
                    raise
                continue
            break
        assert result["num_inserted_rows"] + result["num_updated_rows"] == len(keys)
        done.update(keys)
    return sorted(done)


if __name__ == "__main__":
    name, uri, writer, num_commits = sys.argv[1:]
    library = importlib.import_module(name)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(work(library, uri, int(writer), int(num_commits))))
