/* objects.cpp: tests/cpp/objects.cpp as a function of fault_cpp. */
#include "fault/cpp/cpp.h"

#define main objects_main
#include "../../cpp/objects.cpp"
