#include "io/shrink_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

struct Place {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};

// A signal handler has nothing but what is global: this list is the one of this library.
std::array<Place, 4096> places;
std::mutex taking;
struct sigaction before;

/// The mapping that holds `address`, or null.
Place* find(std::uintptr_t address) {
  for (Place& place : places) {
    if (place.begin.load() <= address && address < place.end.load()) return &place;
  }
  return nullptr;
}

// Signal-safe: atomic loads and system calls.
void handle(int signal, siginfo_t* info, void* context) {
  const int code = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Place* place = find(address);
  if (place != nullptr) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* here = reinterpret_cast<void*>(address / page * page);
    place->damaged.store(true);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (::mmap(here, page, PROT_READ, kFlags, -1, 0) != MAP_FAILED) {
      errno = code;
      return;
    }
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &before, nullptr);  // the access comes again, and ends the process
  }
  errno = code;
}

void install() {
  struct sigaction action = {};
  action.sa_sigaction = &handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &before);
}

int take_place(std::uintptr_t begin, std::uintptr_t end) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::scoped_lock lock(taking);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Place& place = places[i];
    if (place.end.load() != 0) continue;
    place.damaged.store(false);
    place.begin.store(begin);
    place.end.store(end);
    return static_cast<int>(i);
  }
  fail("map a file: expected at most {} mapped at once, found more", places.size());
}

Place& place_at(int index) { return places[static_cast<std::size_t>(index)]; }

}  // namespace

ShrinkGuard::ShrinkGuard(const void* begin, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  place_ = take_place(address, address + size);
}

ShrinkGuard::~ShrinkGuard() {
  if (place_ >= 0) place_at(place_).end.store(0);
}

ShrinkGuard::ShrinkGuard(ShrinkGuard&& other) noexcept : place_(std::exchange(other.place_, -1)) {}

ShrinkGuard& ShrinkGuard::operator=(ShrinkGuard&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

bool ShrinkGuard::damaged() const { return place_ >= 0 && place_at(place_).damaged.load(); }

}  // namespace talon
