#include "client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace talon::test {
namespace {

constexpr int kPatience = 60'000;  // ms; a server that answers nothing for so long has failed

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::vector<Json> Reply::events() const {
  std::vector<Json> events;
  std::size_t at = 0;
  bool is_done = false;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    if (end == std::string::npos) throw std::runtime_error("half an event: " + body.substr(at));
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    const std::size_t data = event.find("data: ");
    if (data == std::string::npos || is_done) throw std::runtime_error("not an event: " + event);
    is_done = event == "data: [DONE]";
    if (!is_done) events.push_back(Json::parse(event.substr(data + 6)));
  }
  return events;
}

Client::Client(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    throw std::runtime_error("the server does not listen");
  }
}

Client::Client(const std::string& unix_path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    throw std::runtime_error("the server does not listen");
  }
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Client::close_half() { shutdown(socket_, SHUT_WR); }

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the answer tells why
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

bool Client::receive() {
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, kPatience) <= 0) throw std::runtime_error("the server does not answer");
  char buffer[16384];
  const ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> Client::take_line() {
  std::size_t end;
  while ((end = received_.find("\r\n")) == std::string::npos) {
    if (!receive()) return std::nullopt;
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 2);
  return line;
}

bool Client::take(std::size_t count, std::string& out) {
  while (received_.size() < count) {
    if (!receive()) return false;
  }
  out.append(received_, 0, count);
  received_.erase(0, count);
  return true;
}

Reply Client::read(bool has_body) {
  Reply reply;
  const auto status = take_line();
  if (!status) return reply;
  reply.status = std::stoi(status->substr(9, 3));
  while (const auto line = take_line()) {
    if (line->empty()) break;
    const std::size_t colon = line->find(": ");
    reply.headers[lower(line->substr(0, colon))] = line->substr(colon + 2);
  }
  if (reply.status == 100) return read(has_body);
  if (!has_body) return reply;
  if (reply.headers.contains("content-length")) {
    take(std::stoul(reply.headers["content-length"]), reply.body);
  } else if (reply.headers.contains("transfer-encoding")) {
    while (const auto size = take_line()) {
      const std::size_t count = std::stoul(*size, nullptr, 16);
      take(count, reply.body);
      take_line();
      if (count == 0) break;
    }
  } else if (reply.status != 204 && reply.status != 304) {
    while (receive()) {
    }
    reply.body = std::move(received_);
  }
  return reply;
}

bool Client::read_until(std::string_view wanted) {
  while (received_.find(wanted) == std::string::npos) {
    if (!receive()) return false;
  }
  return true;
}

bool Client::is_closed_within(double seconds) {
  pollfd ready{socket_, POLLIN, 0};
  char buffer[16384];
  while (poll(&ready, 1, static_cast<int>(seconds * 1000)) > 0) {
    if (recv(socket_, buffer, sizeof(buffer), 0) <= 0) return true;
  }
  return false;
}

Reply Client::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: talon\r\n" + headers + "\r\n");
  return read();
}

std::string post_text(const std::string& path, const std::string& body,
                      const std::string& headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: talon\r\nContent-Type: application/json\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Reply Client::post(const std::string& path, const std::string& body, const std::string& headers) {
  send(post_text(path, body, headers));
  return read();
}

}  // namespace talon::test
