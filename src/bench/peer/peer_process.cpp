#include "bench/peer/peer_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/error.h"
#include "core/process.h"
#include "core/stopwatch.h"

namespace talon {
namespace {

constexpr off_t kOutputBytes = 600;
constexpr double kPatienceMs = 3000;  // between asking it to end and ending it

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command) {
  expects(!command.empty(), "a program to run");
  if (access(command.front().c_str(), X_OK) != 0) {
    fail("start {}: expected a program: {}", command.front(), std::strerror(errno));
  }
  ProcessStart start{.command = command, .apart = true};
  start.command.front() = std::filesystem::absolute(command.front()).string();  // not on the path
  start.output = output_ = memfd_create("peer output", MFD_CLOEXEC);
  try {
    process_ = start_process(start).value_or(-1);
  } catch (...) {
    close(output_);
    throw;
  }
}

PeerProcess::~PeerProcess() {
  if (process_ > 0) kill(process_, SIGTERM);
  const Stopwatch watch;
  while (running() && watch.ms() < kPatienceMs)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  close(output_);
}

bool PeerProcess::running() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) != 0) process_ = -1;
  return process_ > 0;
}

std::string PeerProcess::last_output() const {
  const off_t end = lseek(output_, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, end - kOutputBytes);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, end - begin)), ' ');
  const ssize_t count = pread(output_, text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return text;
}

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      bind(listener, generic, size) == 0 && getsockname(listener, generic, &size) == 0;
  close(listener);
  if (!bound) fail("start a peer: no free port on 127.0.0.1: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

}  // namespace talon
