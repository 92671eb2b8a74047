"""A real Slurm that keeps accounts, so that it has limits for users: slurmdbd and MariaDB beside it, from Debian's
packages, up in some three seconds, with all that they write in its folder.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

from ports import free_ports
from slurm_here import PROGRAMS, SlurmHere

__all__ = ["SlurmWithLimits", "missing"]

_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql")
_SMALL = ("--innodb-log-file-size=4M", "--innodb-data-file-path=ibdata1:5M:autoextend", "--innodb-buffer-pool-size=16M")


def missing() -> list[str]:
    """Return which programs are not installed."""
    return [name for name in (*PROGRAMS, "slurmdbd", "sacctmgr", "mariadbd") if shutil.which(name) is None]


class SlurmWithLimits(SlurmHere):
    """Slurm with one account, `p17`, whose only user is root; `limit` says what root may have there."""

    def limit(self, **limits: int) -> None:
        """Set limits of the user, as `MaxSubmitJobs=1`; -1 lifts one."""
        words = [f"{name}={value}" for name, value in limits.items()]
        self.say("sacctmgr", "-i", "modify", "user", "root", "where", "account=p17", "set", *words)

    def _configure(self) -> None:
        self._database_port, self._accounts_port = free_ports(2)
        self._extra += f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={self._accounts_port}
AccountingStoragePass={self.folder}/munge/socket
AccountingStorageEnforce=associations,limits
JobAcctGatherType=jobacct_gather/none
"""
        super()._configure()

    def _start_accounting(self, stack: ExitStack) -> None:
        self._start_database(stack)
        path = self.folder / "slurmdbd.conf"
        path.write_text(
            f"""\
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
DbdHost={socket.gethostname()}
DbdAddr=127.0.0.1
DbdPort={self._accounts_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={self._database_port}
StorageUser=root
StorageLoc=accounts
LogFile={self.folder}/slurmdbd.log
PidFile={self.folder}/slurmdbd.pid
"""
        )
        path.chmod(0o600)
        self._start(stack, "slurmdbd", "-D", log="slurmdbd")
        self._until(self._keeps_accounts, "slurmdbd does not answer")
        self.say("sacctmgr", "-i", "add", "account", "p17", "cluster=here")
        self.say("sacctmgr", "-i", "add", "user", "root", "account=p17", "DefaultAccount=p17")

    def _keeps_accounts(self) -> bool:
        self.say("sacctmgr", "-i", "add", "cluster", "here", check=False)
        return "here" in self.say("sacctmgr", "-n", "show", "cluster", "format=Cluster", check=False)

    def _start_database(self, stack: ExitStack) -> None:
        """Start MariaDB without a password, on loopback."""
        data, socket_path = self.folder / "database", self.folder / "database.socket"
        data.mkdir(mode=0o700)
        tables = [Path("/usr/share/mysql", name).read_text(encoding="utf-8") for name in _TABLES]
        common = ("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", *_SMALL)
        with (self.folder / "bootstrap.out").open("wb") as out:
            text = "\n".join(["create database mysql;", "use mysql;", *tables])
            subprocess.run([*common, "--bootstrap"], input=text.encode(), stdout=out, stderr=out, check=True)
        where = ("--bind-address=127.0.0.1", f"--port={self._database_port}", f"--socket={socket_path}")
        rest = ("--skip-grant-tables", "--skip-networking=0", f"--pid-file={self.folder}/database.pid")
        self._start(stack, *common, *where, *rest, log="mariadbd")
        self._until(socket_path.exists, "MariaDB does not listen")
