#include "cli_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace talon::test {
namespace {

std::string header_of(const std::string& request, const std::string& name) {
  const std::size_t begin = request.find("\r\n" + name + ": ");
  if (begin == std::string::npos) return "";
  const std::size_t value = begin + name.size() + 4;
  return request.substr(value, request.find("\r\n", value) - value);
}

}  // namespace

FileServer::FileServer(Behaviour behaviour) : behaviour_(std::move(behaviour)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, behaviour_.host.c_str(), &address.sin_addr);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, generic, size) != 0 || listen(listener_, 4) != 0 ||
      getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("the test's server did not start");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FileServer::~FileServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

std::string FileServer::address() const {
  return "http://" + behaviour_.host + ":" + std::to_string(port_);
}

std::string FileServer::url() const { return address() + "/model.gguf"; }

void FileServer::serve() {
  while (!stopping_) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) continue;
    answer(connection);
    close(connection);
  }
}

void FileServer::answer(int connection) {
  std::string request;
  char buffer[4096];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
    if (count <= 0) return;
    request.append(buffer, static_cast<std::size_t>(count));
  }
  const std::size_t target = request.find(' ') + 1;
  targets_.push_back(request.substr(target, request.find(' ', target) - target));
  if (targets_.back() == behaviour_.silent_at) {
    silent_ = true;
    recv(connection, buffer, sizeof(buffer), 0);
    return;
  }
  const std::string range = header_of(request, "Range");
  ranges_.push_back(range);
  const std::string version = header_of(request, "If-Range");
  const bool partial = !range.empty() && (version.empty() || version == behaviour_.etag);
  const std::size_t first = partial ? std::stoul(range.substr(range.find('=') + 1)) : 0;
  int status = behaviour_.status != 200 ? behaviour_.status : partial ? 206 : 200;
  const auto file = behaviour_.files.find(targets_.back());
  if (!behaviour_.files.empty() && file == behaviour_.files.end()) status = 404;
  if (header_of(request, "Authorization") !=
      (behaviour_.token.empty() ? "" : "Bearer " + behaviour_.token)) {
    status = 401;
  }
  const auto refused = behaviour_.statuses.find(targets_.back());
  if (refused != behaviour_.statuses.end() && behaviour_.refusals != 0) {
    status = refused->second;
    if (behaviour_.refusals > 0) --behaviour_.refusals;
  }
  if (behaviour_.refuses_the_nameless && header_of(request, "User-Agent").empty()) status = 403;
  std::string body = file == behaviour_.files.end() ? behaviour_.body : file->second;
  std::string more;  // headers
  if (partial && status == 206 && first >= body.size()) {
    status = 416;
    more = "\r\nContent-Range: bytes */" + std::to_string(body.size());
  }
  const std::size_t whole = body.size();
  body = body.substr(std::min(first, body.size()));
  if (partial && status == 206 && behaviour_.most_of_a_range > 0) {
    body.resize(std::min(body.size(), behaviour_.most_of_a_range));
    more = "\r\nContent-Range: bytes " + std::to_string(first) + "-" +
           std::to_string(first + body.size() - 1) + "/" + std::to_string(whole);
  }
  if (!behaviour_.type.empty()) more += "\r\nContent-Type: " + behaviour_.type;
  if (!behaviour_.redirects_to.empty()) more += "\r\nLocation: " + behaviour_.redirects_to;
  for (const auto& [name, value] : behaviour_.headers) more += "\r\n" + name + ": " + value;
  std::string response =
      "HTTP/1.1 " + std::to_string(status) +
      " X\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\nETag: " + behaviour_.etag + more + "\r\n\r\n";
  const bool breaks = behaviour_.break_after > 0 && body.size() > behaviour_.break_after;
  if (breaks && behaviour_.breaks > 0) {
    body.resize(behaviour_.break_after);
    --behaviour_.breaks;
  }
  response += body;
  for (std::size_t sent = 0; sent < response.size();) {
    const ssize_t count =
        send(connection, response.data() + sent, response.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

}  // namespace talon::test
