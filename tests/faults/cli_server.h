#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace talon::test {

/// A web server for one file, for as long as it lives: answers ranges, and can break off.
class FileServer {
 public:
  struct Behaviour {
    std::string body = {};
    std::string etag = "\"one\"";
    std::size_t break_after =
        0;             // bytes of the body after which the first connection ends; 0: never
    int status = 200;  // another: refuse with it
  };
  explicit FileServer(Behaviour behaviour);
  ~FileServer();
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  std::string url() const;
  /// The `Range` header of each request so far, empty without one.
  const std::vector<std::string>& ranges() const { return ranges_; }
  void set_version(std::string body, std::string etag);

 private:
  void serve();
  void answer(int connection);

  Behaviour behaviour_;
  std::vector<std::string> ranges_;  // read between requests only
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace talon::test
