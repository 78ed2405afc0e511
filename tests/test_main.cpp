// main() of the test programs: GoogleTest's, with a folder of its own for temporary files and
// caches, which goes with the process. So no test finds what another process left, or runs beside,
// and none leaves measured costs to the user.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "talon-test-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::cerr << "no temporary folder " << folder << "\n";
    return 1;
  }
  // Before any thread runs.
  ::setenv("TMPDIR", folder.c_str(), 1);
  ::setenv("TEST_TMPDIR", folder.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", (folder + "/cache").c_str(), 1);
  // Tests of the trainer run beside others, and multiply small matrices.
  if (void* set_threads = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set_threads)(1);
  }
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
