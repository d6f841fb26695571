// Python's configuration for the system that the compiler builds for, as far as its headers need it.

#pragma once

#define SIZEOF_INT 4
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T __SIZEOF_WCHAR_T__
#define ALIGNOF_MAX_ALIGN_T 8
#define HAVE_DECLSPEC_DLL
#define Py_ENABLE_SHARED
#if defined(_WIN32)
#define MS_WINDOWS
#define NT_THREADS
#else
#define HAVE_PTHREAD_H
#endif
