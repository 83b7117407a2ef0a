/* A program that embeds NVTX with NVIDIA's own headers, every function of them that annotates. */
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

int main(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("of headers");
    nvtxStringHandle_t name = nvtxDomainRegisterStringA(domain, "registered");
    nvtxEventAttributes_t event = {0};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = 3;
    event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    event.payload.dValue = 2.5;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = name;
    nvtxInitialize(NULL);
    nvtxDomainNameCategoryA(domain, 3, "third");
    nvtxNameOsThreadA(0, "nobody");
    for (int i = 0; i < 11; i++) {
        nvtxRangePushA("pushed");
        nvtxRangePushW(L"pushed wide");
        nvtxDomainRangePushEx(domain, &event);
        nvtxMarkW(L"marked");
        nvtxRangePop();
        nvtxDomainRangePop(domain);
        nvtxRangePop();
        nvtxRangeEnd(nvtxRangeStartA("started"));
        nvtxDomainMarkEx(domain, &event);
    }
    nvtxResourceHandle_t resource = nvtxDomainResourceCreate(domain, NULL);
    nvtxDomainResourceDestroy(resource);
    nvtxDomainDestroy(domain);
    return 0;
}
