/* injection.c: a stand-in for a tool of NVIDIA's: a library that NVTX_INJECTION64_PATH names. It
 * writes what it is told to the file that WH_NVTX_LOG names, a line a call. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_AS_SYSTEM_HEADER
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#define EXPORT __attribute__((visibility("default")))

static FILE *out(void) {
    static FILE *file;
    if (file == NULL) {
        const char *name = getenv("WH_NVTX_LOG");
        file = name != NULL ? fopen(name, "w") : stderr;
        if (file == NULL) {
            abort();
        }
        setvbuf(file, NULL, _IOLBF, 1 << 16);
    }
    return file;
}

static struct nvtxDomainRegistration_st *const DOMAIN =
    (struct nvtxDomainRegistration_st *)(void *)0x70;
static nvtxMemHeapHandle_t const POOL = (nvtxMemHeapHandle_t)(void *)0x50;

static const char *known(nvtxDomainHandle_t domain) {
    return domain == DOMAIN ? "" : " of an unknown domain";
}

/* --- ranges ----------------------------------------------------------------------------------- */

static nvtxDomainHandle_t NVTX_API domain_create(const char *name) {
    fprintf(out(), "domain %s\n", name);
    return DOMAIN;
}
static int NVTX_API range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *e) {
    fprintf(out(), "push %s%s%s\n", e->message.ascii, known(domain),
            e->version == NVTX_VERSION && e->size == sizeof *e ? "" : " of a wrong size");
    return 0;
}
static int NVTX_API range_pop(nvtxDomainHandle_t domain) {
    fprintf(out(), "pop%s\n", known(domain));
    return 0;
}

EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks *calls =
        (const NvtxExportTableCallbacks *)get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned n = 0;
    if (calls == NULL || !calls->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &n) ||
        n <= NVTX_CBID_CORE2_DomainCreateA) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}

/* --- memory ----------------------------------------------------------------------------------- */

static nvtxMemHeapHandle_t NVTX_API heap_register(nvtxDomainHandle_t domain,
                                                  const nvtxMemHeapDesc_t *d) {
    const nvtxMemVirtualRangeDesc_t *range = (const nvtxMemVirtualRangeDesc_t *)d->typeSpecificDesc;
    const int good = d->extCompatID == NVTX_EXT_COMPATID_MEM && d->structSize == sizeof *d &&
                     d->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
                     d->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
                     d->typeSpecificDescSize == sizeof *range;
    fprintf(out(), "pool %" PRIuPTR " %zu%s%s\n", (uintptr_t)range->ptr, range->size, known(domain),
            good ? "" : " badly described");
    return POOL;
}
static void NVTX_API heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t pool) {
    fprintf(out(), "unregister%s%s\n", known(domain), pool == POOL ? "" : " unknown");
}
static void NVTX_API heap_reset(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t pool) {
    fprintf(out(), "reset%s%s\n", known(domain), pool == POOL ? "" : " unknown");
}
static void NVTX_API regions_register(nvtxDomainHandle_t domain,
                                      const nvtxMemRegionsRegisterBatch_t *d) {
    const nvtxMemVirtualRangeDesc_t *range =
        (const nvtxMemVirtualRangeDesc_t *)d->regionDescElements;
    const int good = d->extCompatID == NVTX_EXT_COMPATID_MEM && d->structSize == sizeof *d &&
                     d->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS && d->heap == POOL &&
                     d->regionDescElementSize == sizeof *range;
    for (size_t i = 0; i < d->regionCount; i++) {
        fprintf(out(), "region %" PRIuPTR " %zu%s%s\n", (uintptr_t)range[i].ptr, range[i].size,
                known(domain), good ? "" : " badly described");
    }
}
static void NVTX_API regions_name(nvtxDomainHandle_t domain, const nvtxMemRegionsNameBatch_t *d) {
    for (size_t i = 0; i < d->regionCount; i++) {
        const nvtxMemRegionNameDesc_t *e = &d->regionElements[i];
        const int good = d->extCompatID == NVTX_EXT_COMPATID_MEM && d->structSize == sizeof *d &&
                         d->regionElementSize == sizeof *e &&
                         e->regionRefType == NVTX_MEM_REGION_REF_TYPE_POINTER &&
                         e->nameType == NVTX_MESSAGE_TYPE_ASCII;
        fprintf(out(), "name %" PRIuPTR " %s%s%s\n", (uintptr_t)e->region.pointer, e->name.ascii,
                known(domain), good ? "" : " badly described");
    }
}

EXPORT int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *m) {
    if (m->moduleId != NVTX_EXT_MODULEID_MEM || m->compatId != NVTX_EXT_COMPATID_MEM ||
        m->segmentsCount != 1) {
        return 0;
    }
    intptr_t *slots = m->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemHeapReset] = (intptr_t)heap_reset;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsName] = (intptr_t)regions_name;
    return 1;
}
