"""Who acts for which shard just now, read from the audits as they grow."""

from __future__ import annotations

from pathlib import Path

from noctaya.workers.audit import Started, Stood, Stopped, read_lines


class AuditTail:
    """See the module. Reads whole lines only; what is being written is read the next time."""

    def __init__(self, folder: Path) -> None:
        self.owned: dict[tuple[int, str], int] = {}
        """(shard, incarnation) → epoch; of the dead too, who say no more."""
        self.standing: dict[str, str] = {}
        """Incarnation → what it may do."""
        self._folder = folder
        self._read: dict[Path, int] = {}

    def catch_up(self) -> None:
        """Take in what was written since."""
        for file in self._folder.glob("*.audit.jsonl"):
            with file.open("rb") as opened:
                opened.seek(self._read.get(file, 0))
                content = opened.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(whole)
            for line in read_lines(whole):
                if isinstance(line, Started):
                    self.owned[line.shard, line.by] = line.epoch
                elif isinstance(line, Stood):
                    self.standing[line.by] = line.standing
                elif isinstance(line, Stopped):
                    self.owned.pop((line.shard, line.by), None)

    def idle(self, records: dict[int, tuple[str, int]]) -> list[int]:
        """Shards whose recorded holder does not act for them under the recorded epoch."""
        return [
            shard for shard, (holder, epoch) in records.items() if self.owned.get((shard, holder)) != epoch
        ]
