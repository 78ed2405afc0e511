#include "c/status.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>

namespace talon {
namespace {

constexpr std::size_t kMessageBytes = 4096;
constexpr std::array<const char*, 8> kStatusNames = {
    "ok", "bad argument", "failed", "too long", "queue full", "cancelled", "no memory", "bug"};

// Of fixed size, so that no failure is lost for want of memory.
thread_local std::array<char, kMessageBytes> last_message = {};

void append(std::size_t& length, std::string_view text) {
  std::size_t bytes = std::min(text.size(), kMessageBytes - 1 - length);
  // A character that has no room is left out whole.
  if (bytes < text.size()) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  }
  std::memcpy(last_message.data() + length, text.data(), bytes);
  length += bytes;
  last_message[length] = '\0';
}

talon_status note(const char* call, talon_status status, std::string_view what) {
  std::size_t length = 0;
  append(length, call);
  append(length, ": ");
  append(length, what);
  return status;
}

}  // namespace

talon_status note_failure(const char* call) noexcept {
  try {
    throw;
  } catch (const StatusError& error) {
    return note(call, error.status(), error.what());
  } catch (const UsageError& error) {
    return note(call, TALON_BAD_ARGUMENT, error.what());
  } catch (const Bug& error) {
    return note(call, TALON_BUG, error.what());
  } catch (const std::bad_alloc&) {
    return note(call, TALON_NO_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return note(call, TALON_FAILED, error.what());
  } catch (...) {
    return note(call, TALON_FAILED, "something that is no std::exception was thrown");
  }
}

}  // namespace talon

const char* talon_last_error(void) { return talon::last_message.data(); }

const char* talon_status_name(talon_status status) {
  const auto index = static_cast<std::size_t>(status);
  return index < talon::kStatusNames.size() ? talon::kStatusNames[index] : "unknown";
}

const char* talon_version(void) { return TALON_VERSION_TEXT; }

uint32_t talon_abi_version(void) { return TALON_ABI_VERSION; }
