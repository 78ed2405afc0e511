#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace talon::test {

struct Reply {
  int status = 0;                              // 0: the connection ended without one
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  Json json() const { return Json::parse(body); }
  /// The JSON of each event of a stream; the last must be [DONE].
  std::vector<Json> events() const;
};

/// One connection, for bytes of every kind.
class Client {
 public:
  explicit Client(int port);
  explicit Client(const std::string& unix_path);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  /// One whole answer; that to HEAD has no body. What comes before it, with status 100, is left
  /// out.
  Reply read(bool has_body = true);
  /// Bytes of a stream until `wanted` is among them; false if the connection ends before.
  bool read_until(std::string_view wanted);
  /// Whether the server closes within `seconds`.
  bool is_closed_within(double seconds);
  void close();
  /// Sends no more, and still reads.
  void close_half();

  Reply get(const std::string& path, const std::string& headers = "");
  Reply post(const std::string& path, const std::string& body, const std::string& headers = "");
  Reply post(const std::string& path, const Json& body) { return post(path, body.dump()); }

 private:
  bool receive();
  std::optional<std::string> take_line();
  bool take(std::size_t count, std::string& out);

  int socket_ = -1;
  std::string received_;
};

std::string post_text(const std::string& path, const std::string& body,
                      const std::string& headers = "");

}  // namespace talon::test
