#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

/// Takes little-endian numbers and byte runs from the front of untrusted bytes. Running out throws
/// Error: `read GGUF "x.gguf": byte 24: expected 8 bytes of the tensor count, found 3`. Value type
/// over borrowed bytes.
class ByteReader {
 public:
  /// `doing` begins every message.
  ByteReader(std::span<const std::byte> bytes, std::string doing)
      : bytes_(bytes), doing_(std::move(doing)) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  const std::string& doing() const { return doing_; }

  /// REQUIRES: position <= size.
  void seek(std::size_t position) { position_ = position; }

  template <typename T>
  requires std::integral<T> || std::floating_point<T> T take(std::string_view what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  std::string_view take_text(std::size_t size, std::string_view what) {
    need(size, what);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, size);
    position_ += size;
    return text;
  }

  void skip(std::size_t size, std::string_view what) { take_text(size, what); }

  /// Throws Error unless `count` items of at least `least_bytes` each can still follow, so that
  /// room for them may be made.
  void need_items(std::uint64_t count, std::size_t least_bytes, std::string_view what) const {
    if (count > remaining() / least_bytes) {
      fail("{}: byte {}: expected {} {}, found {} bytes, too few for them", doing_, position_,
           count, what, remaining());
    }
  }

 private:
  void need(std::size_t size, std::string_view what) const {
    if (size > remaining()) {
      fail("{}: byte {}: expected {} bytes of {}, found {}", doing_, position_, size, escape(what),
           remaining());
    }
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::string doing_;
};

}  // namespace talon
