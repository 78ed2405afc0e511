#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace talon {

/// Reads the fields of one protocol-buffer message in order. Untrusted bytes; throws Error,
/// beginning with `doing`. https://protobuf.dev/programming-guides/encoding
class ProtoReader {
 public:
  enum class Wire { number = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  ProtoReader(std::string_view message, std::string_view doing) : rest_(message), doing_(doing) {}

  /// Moves to the next field; false at the end.
  bool next();
  int field() const { return field_; }

  /// The current field's value. Throw Error if it is of another kind; `name` is what the message
  /// calls it.
  std::uint64_t number(std::string_view name) const;
  bool boolean(std::string_view name) const { return number(name) != 0; }
  float float32(std::string_view name) const;
  std::string_view bytes(std::string_view name) const;

 private:
  std::uint64_t take_varint();
  void require(Wire wire, std::string_view name) const;

  std::string_view rest_;
  std::string_view doing_;
  int field_ = 0;
  Wire wire_ = Wire::number;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

/// Writes fields of one message, appending to a string.
class ProtoWriter {
 public:
  void number(int field, std::uint64_t value);
  void float32(int field, float value);
  void bytes(int field, std::string_view value);
  const std::string& message() const { return message_; }

 private:
  void varint(std::uint64_t value);
  void tag(int field, ProtoReader::Wire wire);

  std::string message_;
};

}  // namespace talon
