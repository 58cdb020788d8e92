"""The configuration of the private Slurm."""

SLURMDBD = """
AuthType=auth/munge
AuthInfo={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
PidFile={directory}/run/slurmdbd.pid
LogFile={directory}/slurmdbd.log
"""
SLURM = """
ClusterName={cluster}
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={control_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo={munge}
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
FirstJobId={first_job}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/run/slurmctld.pid
SlurmdPidFile={directory}/run/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={database_port}
AccountingStoragePass={directory}/munge/socket
AccountingStorageEnforce=associations
AccountingStorageTRES=gres/gpu
GresTypes=gpu
MailProg=/bin/true
ReturnToService=2
KillWait=2
Epilog={directory}/epilog
TaskEpilog={directory}/task-epilog
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN Gres=gpu:h100:{gpus}
PartitionName=gpu Nodes={node} Default=YES MaxTime=60 State=UP
"""
