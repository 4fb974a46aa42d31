#include "cuda/upload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thread_pool.h"

namespace aot_rt::cuda {
namespace {

constexpr size_t kStaging = size_t{16} << 20;  // bytes of one buffer
constexpr size_t kPiece = size_t{1} << 20;     // what a thread copies at a time
// Below this, the driver's own copy out of pageable memory is done before page-locked memory is
// had.
constexpr size_t kWorthStaging = size_t{4} << 20;
constexpr int32_t kMostThreads = 8;  // they fill memory faster than the link empties it

struct Fill {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes;
};

void fill_piece(void* data, int32_t /*seat*/, int64_t piece) {
  const auto& fill = *static_cast<const Fill*>(data);
  const size_t begin = static_cast<size_t>(piece) * kPiece;
  std::memcpy(fill.to + begin, fill.from + begin, std::min(kPiece, fill.bytes - begin));
}

// Two buffers in turn.
class Staging {
 public:
  Staging(const DevicePtr& device, CUstream stream)
      : driver_(device->driver()),
        stream_(stream),
        crew_(std::min(usable_cores(), kMostThreads), nullptr),
        slots_{Slot{device}, Slot{device}} {}
  // The GPU may still be reading: an upload that failed half-way must not free what it reads.
  ~Staging() { driver_.stream_synchronize.raw(stream_); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void send(const Transfer& transfer) {
    for (size_t done = 0; done < transfer.bytes; done += kStaging) {
      const size_t bytes = std::min(kStaging, transfer.bytes - done);
      Slot& slot = slots_[next_++ % slots_.size()];
      driver_.event_synchronize(slot.sent.get());  // passes at once when nothing was recorded
      Fill fill{slot.buffer.data(), transfer.from + done, bytes};
      crew_.run(fill_piece, &fill, static_cast<int64_t>((bytes + kPiece - 1) / kPiece));
      driver_.memcpy_htod_async(transfer.to + done, slot.buffer.data(), bytes, stream_);
      driver_.event_record(slot.sent.get(), stream_);
    }
  }

 private:
  struct Slot {
    explicit Slot(const DevicePtr& device)
        : buffer(device, kStaging, "page-locked memory for the upload of weights"), sent(device) {}
    PinnedBlock buffer;
    Event sent;
  };

  const Driver& driver_;
  CUstream stream_;
  Crew crew_;
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
};

}  // namespace

void upload(const DevicePtr& device, const std::vector<Transfer>& transfers) {
  const Scope scope(*device);
  const Driver& driver = device->driver();
  const Stream stream(device);
  size_t total = 0;
  for (const Transfer& transfer : transfers) total += transfer.bytes;
  if (total < kWorthStaging) {
    for (const Transfer& transfer : transfers) {
      driver.memcpy_htod_async(transfer.to, transfer.from, transfer.bytes, stream.get());
    }
    driver.stream_synchronize(stream.get());
    return;
  }
  Staging staging(device, stream.get());
  for (const Transfer& transfer : transfers) staging.send(transfer);
  driver.stream_synchronize(stream.get());
}

}  // namespace aot_rt::cuda
