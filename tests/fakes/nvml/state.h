/* The state of the simulated driver: a file that tests write and the stub maps.
 *
 * tests/fakes/nvml_driver.py declares the same layout in ctypes; fake_state_size() lets it check that they agree.
 * `sequence` is a seqlock: odd while the writer is at it, so that a reader never sees half a change.
 */
#ifndef LABCARBON_FAKE_NVML_STATE_H
#define LABCARBON_FAKE_NVML_STATE_H

#include <stdint.h>

#define FAKE_MAGIC 0x4C434E56u
#define MAX_GPUS 8
#define MAX_PROCESSES 16
#define MAX_INSTANCES 7

enum capability {
    CAN_COUNTER = 1,           /* total energy counter (Volta and newer) */
    CAN_POWER = 2,             /* power reading at all (not on many vGPUs) */
    CAN_FIELD_INSTANT = 4,     /* field 186 known to this driver */
    CAN_FIELD_AVERAGE = 8,     /* field 185: Ampere other than GA100, and newer */
    CAN_PROCESS_USE = 16,      /* per-process SM utilisation */
    CAN_MIG = 32,
    ROOT_FOR_PROCESS_USE = 64, /* per-process utilisation only for root */
    CAN_PROCESS_LIST = 128,
    ZERO_COUNTER = 256,        /* answers success and 0, as some vGPUs do */
};

struct fake_process {
    uint32_t pid;
    uint32_t sm_util_percent;
    uint64_t memory_bytes;
    uint64_t sampled_at_us; /* time stamp of its utilisation sample */
    int32_t instance;       /* index into instances, -1: the whole GPU */
    uint32_t graphics;
};

struct fake_instance {
    char uuid[64];
    uint64_t memory_bytes;
    uint32_t gpu_instance_id;
    uint32_t slices;
    uint32_t present;
    uint32_t pad;
};

struct fake_gpu {
    char uuid[64];
    char name[64];
    char bus_id[32];
    uint64_t counter_uj;
    uint64_t anchor_us; /* live: CLOCK_MONOTONIC at which counter_uj held */
    uint64_t memory_total_bytes;
    uint64_t memory_used_bytes;
    uint32_t power_mw;
    uint32_t power_limit_mw;
    uint32_t util_percent;
    uint32_t capabilities;
    uint32_t lost;
    uint32_t persistence;
    uint32_t mig_enabled;
    uint32_t process_count;
    struct fake_process processes[MAX_PROCESSES];
    struct fake_instance instances[MAX_INSTANCES];
    uint64_t calls; /* calls that touched the GPU: shows whether a sleeping one was woken */
};

struct fake_state {
    uint32_t magic;
    uint32_t sequence;
    uint32_t gpu_count;
    uint32_t generation; /* grows when the driver is reloaded; handles of an older one are dead */
    uint32_t init_error; /* what nvmlInit answers, 0: success */
    uint32_t live;       /* 1: the counters run by the machine's own clock */
    uint32_t privilege;  /* 0: root has it, 1: everybody, 2: nobody */
    uint32_t pad;
    char driver_version[64];
    struct fake_gpu gpus[MAX_GPUS];
};

#endif
