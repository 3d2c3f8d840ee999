// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for the control socket: the input is what a client sends: messages of any type with fields that are
// near to what exists, records of any bytes, descriptors where none belong. Each request is answered or the connection
// is closed, nothing is left of a client that went, and an honest client is served all the time.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "support/control_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

void check(bool ok) {
    if (!ok) std::abort();
}

struct Kind {
    uint16_t type;
    size_t size;
};
constexpr Kind kKinds[] = {
#define MESSAGE(name, number) {number, sizeof(abi::name##Request)},
#include "abi/messages.def"
#undef MESSAGE
};

class Client {
  public:
    Client(const std::string& path, const uint8_t* data, size_t size) : c_(path), data_(data), size_(size) {}
    void run() {
        const uint8_t start = byte();
        if (start & 1)
            c_.open(start >> 1 & 1);
        else if (start & 2)
            (void)c_.hello(start & 4);
        while (size_ > 0) step();
        // Whatever was sent has been looked at when this is answered, or the connection is closed.
        abi::ListDeviceRequest last;
        abi::MessageHeader h;
        std::vector<char> record(sizeof h + sizeof last);
        h.type = static_cast<uint16_t>(abi::MessageType::ListDevice);
        h.request_id = 0xFFFFFFFF;
        std::memcpy(record.data(), &h, sizeof h);
        std::memcpy(record.data() + sizeof h, &last, sizeof last);
        c_.send_bytes(record.data(), record.size());
        for (uint32_t id = 0; id != 0xFFFFFFFF;) {
            char reply[4096];
            if (c_.receive(reply, sizeof reply, &id) == -1) break;
        }
    }

  private:
    uint8_t byte() { return size_ == 0 ? 0 : (--size_, *data_++); }
    void step() {
        const uint8_t how = byte();
        std::vector<uint8_t> record;
        if (how & 0x80) {  // any bytes
            record.resize(byte());
            for (auto& b : record) b = byte();
        } else {
            const Kind& kind = kKinds[byte() % std::size(kKinds)];
            abi::MessageHeader h;
            h.type = kind.type;
            h.request_id = 1 + (how & 15);
            record.resize(sizeof h + kind.size + (how & 0x40 ? byte() % 16 : 0));
            std::memcpy(record.data(), &h, sizeof h);
            if (how & 0x20 && record.size() > sizeof h) record.resize(sizeof h + byte() % kind.size);
            // Fields: four bytes at a time, small numbers mostly, as ids are.
            const uint8_t fields = byte();
            for (size_t i = 0; i < fields % 32u; ++i) {
                const size_t at = sizeof h + byte() % 32 * 4u;
                uint32_t value = byte();
                if (value >= 0xC0) value = uint32_t{byte()} << (value & 31);
                if (value == 0xB0) value = c_.context;
                if (value == 0xB1) value = c_.pd;
                if (value == 0xB2) value = c_.cq;
                if (at + 4 <= record.size()) std::memcpy(&record[at], &value, 4);
            }
        }
        c_.send_bytes(record.data(), record.size(), how & 0x10 ? 2 : -1);
    }

    ControlClient c_;
    const uint8_t* data_;
    size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // Taken down at exit, in reverse order: the threads end before the logger they use.
    static const bool quiet = (spdlog::set_level(spdlog::level::off), true);
    check(quiet);
    static ControlWorld world;
    static ControlClient honest(world.path());
    static int runs = 0;
    if (runs == 0) {
        honest.open();
        check(honest.status == 0);
    }
    Client(world.path(), data, std::min<size_t>(size, 2000)).run();
    if (++runs % 16 == 0) {
        abi::CreateQpReply made;
        check(honest.call(honest.qp_request(), made) == 0);
        check(honest.call(abi::DestroyQpRequest{made.qpn}) == 0);
        for (const int fd : honest.fds) close(fd);
        honest.fds.clear();
    }
    return 0;
}
