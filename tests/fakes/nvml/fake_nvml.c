/* A simulated libnvidia-ml.so.1 for tests and demos: only what the collector calls, answering as real drivers do.
 *
 * State comes from the file named by LABCARBON_FAKE_NVML (state.h). Built with -DWITHOUT_V3 it lacks the symbols that
 * drivers before 510 lack.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

enum answer {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18,
};

typedef void *device_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned pid; unsigned long long used_memory; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned pid; unsigned long long time_us; unsigned sm, memory, encoder, decoder; } process_use_t;
typedef struct {
    unsigned field, scope;
    long long time_us, latency_us;
    unsigned value_type, answer;
    union { double real; unsigned ui; unsigned long long ull; } value;
} field_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;
typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} attributes_t;

static struct fake_state *state;
static unsigned users, opened_generation;

static uint64_t clock_us(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static int privileged(void) { return state->privilege == 0 ? geteuid() == 0 : state->privilege == 1; }

/* ---- opening ---- */

static int writable; /* another user's daemon may map the state for reading only: then nothing is counted */

static int map_state(void) {
    const char *path = getenv("LABCARBON_FAKE_NVML");
    int file = path ? open(path, O_RDWR) : -1;
    writable = file >= 0;
    if (file < 0 && path) file = open(path, O_RDONLY);
    if (file < 0) return DRIVER_NOT_LOADED;
    void *at = mmap(NULL, sizeof *state, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return DRIVER_NOT_LOADED;
    state = at;
    return state->magic == FAKE_MAGIC ? SUCCESS : DRIVER_NOT_LOADED;
}

size_t fake_state_size(void) { return sizeof(struct fake_state); }

static void unmap_state(void) {
    if (state) munmap(state, sizeof *state);
    state = NULL;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (users == 0) {
        int answer = map_state();
        if (answer == SUCCESS) answer = (int)state->init_error;
        if (answer != SUCCESS) { unmap_state(); return answer; }
        opened_generation = state->generation;
    }
    users++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (users == 0) return UNINITIALIZED;
    if (--users == 0) unmap_state();
    return SUCCESS;
}

const char *nvmlErrorString(int answer) {
    return answer == SUCCESS ? "Success" : answer == NOT_SUPPORTED ? "Not Supported" : "Simulated driver error";
}

/* ---- handles: GPU number + 1, instance number + 1 (0: the whole GPU), generation ---- */

static device_t handle_of(unsigned gpu, unsigned instance_plus_1) {
    return (device_t)(uintptr_t)((gpu + 1) | instance_plus_1 << 8 | (uintptr_t)opened_generation << 16);
}

/* Copy the GPU behind a handle as one consistent state. Every call that touches a GPU goes through here. */
static int look(device_t device, struct fake_gpu *gpu, int *instance) {
    uintptr_t bits = (uintptr_t)device;
    unsigned index = (unsigned)(bits & 0xff) - 1, before, after;
    if (users == 0) return UNINITIALIZED;
    if (index >= state->gpu_count) return INVALID_ARGUMENT;
    do {
        before = __atomic_load_n(&state->sequence, __ATOMIC_ACQUIRE);
        memcpy(gpu, &state->gpus[index], sizeof *gpu);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        after = __atomic_load_n(&state->sequence, __ATOMIC_RELAXED);
    } while (before & 1 || before != after);
    if (writable) __atomic_add_fetch(&state->gpus[index].calls, 1, __ATOMIC_RELAXED);
    *instance = (int)(bits >> 8 & 0xff) - 1;
    if (gpu->lost || state->generation != bits >> 16) return GPU_IS_LOST;
    if (*instance >= 0 && !(gpu->mig_enabled && gpu->instances[*instance].present)) return NOT_FOUND;
    return SUCCESS;
}

#define LOOK(device)                                                                                                   \
    struct fake_gpu gpu;                                                                                               \
    int instance, looked = look(device, &gpu, &instance);                                                              \
    if (looked != SUCCESS) return looked

#define WHOLE_GPU_ONLY(condition)                                                                                      \
    if (instance >= 0 || !(condition)) return NOT_SUPPORTED

int nvmlDeviceGetCount_v2(unsigned *count) {
    if (users == 0) return UNINITIALIZED;
    *count = state->gpu_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    if (users == 0) return UNINITIALIZED;
    if (index >= state->gpu_count) return INVALID_ARGUMENT;
    *device = handle_of(index, 0);
    LOOK(*device);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    if (users == 0) return UNINITIALIZED;
    for (unsigned i = 0; i < state->gpu_count; i++)
        if (strcmp(state->gpus[i].uuid, uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(i, device);
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device_t *device) {
    if (users == 0) return UNINITIALIZED;
    for (unsigned i = 0; i < state->gpu_count; i++)
        if (strcasecmp(state->gpus[i].bus_id, bus_id) == 0) return nvmlDeviceGetHandleByIndex_v2(i, device);
    return NOT_FOUND;
}

/* ---- facts ---- */

static int put_text(char *to, unsigned length, const char *text) {
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    return users ? put_text(version, length, state->driver_version) : UNINITIALIZED;
}

int nvmlDeviceGetName(device_t device, char *name, unsigned length) {
    LOOK(device);
    return put_text(name, length, gpu.name);
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned length) {
    LOOK(device);
    return put_text(uuid, length, instance < 0 ? gpu.uuid : gpu.instances[instance].uuid);
}

int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci) {
    LOOK(device);
    memset(pci, 0, sizeof *pci);
    return put_text(pci->bus_id, sizeof pci->bus_id, gpu.bus_id);
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned *minor) {
    LOOK(device);
    WHOLE_GPU_ONLY(1);
    *minor = (unsigned)((uintptr_t)device & 0xff) - 1;
    return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(device_t device, unsigned *mode) {
    LOOK(device);
    WHOLE_GPU_ONLY(1);
    *mode = gpu.persistence;
    return SUCCESS;
}

static int limit_mw(device_t device, unsigned *limit) {
    LOOK(device);
    WHOLE_GPU_ONLY(gpu.power_limit_mw);
    *limit = gpu.power_limit_mw;
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned *limit) { return limit_mw(device, limit); }

int nvmlDeviceGetPowerManagementDefaultLimit(device_t device, unsigned *limit) { return limit_mw(device, limit); }

/* ---- energy, power, use ---- */

int nvmlDeviceGetTotalEnergyConsumption(device_t device, unsigned long long *energy_mj) {
    LOOK(device);
    WHOLE_GPU_ONLY(gpu.capabilities & (CAN_COUNTER | ZERO_COUNTER));
    uint64_t counter_uj = gpu.counter_uj;
    if (state->live) counter_uj += (clock_us(CLOCK_MONOTONIC) - gpu.anchor_us) * gpu.power_mw / 1000;
    *energy_mj = gpu.capabilities & ZERO_COUNTER ? 0 : counter_uj / 1000;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(device_t device, unsigned *power_mw) {
    LOOK(device);
    WHOLE_GPU_ONLY(gpu.capabilities & CAN_POWER);
    *power_mw = gpu.power_mw;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(device_t device, int count, field_t *fields) {
    LOOK(device);
    for (int i = 0; i < count; i++) {
        unsigned known = fields[i].field == 185   ? gpu.capabilities & CAN_FIELD_AVERAGE
                         : fields[i].field == 186 ? gpu.capabilities & CAN_FIELD_INSTANT
                                                  : 0;
        fields[i].answer = instance < 0 && known ? SUCCESS : NOT_SUPPORTED;
        fields[i].value_type = 1;
        fields[i].value.ui = fields[i].answer == SUCCESS ? gpu.power_mw : 0;
    }
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *use) {
    LOOK(device);
    WHOLE_GPU_ONLY(!gpu.mig_enabled);
    use->gpu = gpu.util_percent;
    use->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    LOOK(device);
    memory->total = instance < 0 ? gpu.memory_total_bytes : gpu.instances[instance].memory_bytes;
    memory->used = instance < 0 ? gpu.memory_used_bytes : 0;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* ---- processes ---- */

static int list_processes(device_t device, unsigned graphics, unsigned *count, process_t *out) {
    LOOK(device);
    if (!(gpu.capabilities & CAN_PROCESS_LIST)) return NOT_SUPPORTED;
    if (gpu.mig_enabled && instance < 0 && !privileged()) return NO_PERMISSION;
    unsigned found = 0, room = *count;
    for (unsigned i = 0; i < gpu.process_count; i++) {
        struct fake_process *process = &gpu.processes[i];
        if (process->graphics != graphics || (instance >= 0 && process->instance != instance)) continue;
        if (out && found < room) {
            int in_mig = gpu.mig_enabled && process->instance >= 0;
            unsigned id = in_mig ? gpu.instances[process->instance].gpu_instance_id : 0xffffffffu;
            out[found] = (process_t){process->pid, process->memory_bytes, id, in_mig ? 0 : 0xffffffffu};
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LIST(name, graphics)                                                                                           \
    int name(device_t device, unsigned *count, process_t *out) { return list_processes(device, graphics, count, out); }

LIST(nvmlDeviceGetComputeRunningProcesses_v2, 0)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 1)

#ifndef WITHOUT_V3
LIST(nvmlDeviceGetComputeRunningProcesses_v3, 0)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 1)

int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_v2_t *memory) {
    memory_t plain;
    int answer = nvmlDeviceGetMemoryInfo(device, &plain);
    if (answer != SUCCESS) return answer;
    memory->total = plain.total;
    memory->used = plain.used;
    memory->reserved = 0;
    memory->free = plain.free;
    return SUCCESS;
}
#endif

int nvmlDeviceGetProcessUtilization(device_t device, process_use_t *out, unsigned *count, unsigned long long since_us) {
    LOOK(device);
    if (instance >= 0 || gpu.mig_enabled || !(gpu.capabilities & CAN_PROCESS_USE)) return NOT_SUPPORTED;
    if (gpu.capabilities & ROOT_FOR_PROCESS_USE && !privileged()) return NO_PERMISSION;
    unsigned found = 0, room = *count;
    for (unsigned i = 0; i < gpu.process_count; i++) {
        struct fake_process *process = &gpu.processes[i];
        uint64_t at_us = state->live ? clock_us(CLOCK_REALTIME) : process->sampled_at_us;
        if (at_us <= since_us) continue;
        if (out && found < room)
            out[found] = (process_use_t){process->pid, at_us, process->sm_util_percent, 0, 0, 0};
        found++;
    }
    *count = found;
    if (found == 0) return NOT_FOUND; /* no sample since then */
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending) {
    LOOK(device);
    WHOLE_GPU_ONLY(gpu.capabilities & CAN_MIG);
    *current = *pending = gpu.mig_enabled;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *count) {
    LOOK(device);
    *count = gpu.capabilities & CAN_MIG ? MAX_INSTANCES : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned index, device_t *out) {
    LOOK(device);
    WHOLE_GPU_ONLY(gpu.capabilities & CAN_MIG);
    if (index >= MAX_INSTANCES) return INVALID_ARGUMENT;
    if (!gpu.mig_enabled || !gpu.instances[index].present) return NOT_FOUND;
    *out = handle_of((unsigned)((uintptr_t)device & 0xff) - 1, index + 1);
    return SUCCESS;
}

int nvmlDeviceGetAttributes_v2(device_t device, attributes_t *attributes) {
    LOOK(device);
    if (instance < 0) return NOT_SUPPORTED;
    memset(attributes, 0, sizeof *attributes);
    attributes->gpu_slices = attributes->compute_slices = gpu.instances[instance].slices;
    attributes->memory_mb = gpu.instances[instance].memory_bytes >> 20;
    return SUCCESS;
}
